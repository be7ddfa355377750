"""Every backbone of this distribution keeps the contract of its kind, with random weights."""

from __future__ import annotations

import sentbed_backbones
from sentbed_testing import offered, parametrize_with_rules


@parametrize_with_rules(
    offered(sentbed_backbones.backbones()),
    example={"init": "random", "vocab_size": 512},
    must_run=True,
)
def test_a_backbone_keeps_the_contract(rule):
    rule()


@parametrize_with_rules(offered(sentbed_backbones.interventions()), must_run=True)
def test_an_intervention_keeps_the_contract(rule):
    rule()
