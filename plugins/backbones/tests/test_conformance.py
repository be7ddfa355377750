"""Every backbone of this distribution keeps the contract of its kind, with random weights."""

from __future__ import annotations

import pytest
import sentbed_backbones
from sentbed_testing import check_component, offered


@pytest.mark.parametrize("backbone", offered(sentbed_backbones.backbones()))
def test_a_backbone_keeps_the_contract(backbone: type) -> None:
    report = check_component(
        backbone, kind="backbone", example={"init": "random", "vocab_size": 512}
    )
    assert report.not_run == {}


@pytest.mark.parametrize("intervention", offered(sentbed_backbones.interventions()))
def test_an_intervention_keeps_the_contract(intervention: type) -> None:
    report = check_component(intervention, kind="intervention")
    assert report.not_run == {}
