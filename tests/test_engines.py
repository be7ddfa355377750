"""Our engines keep the contract."""

from __future__ import annotations

import pytest
from contract_choice import CPU, EACH, first_of_each
from sentbed._registry.registry import load_plugins
from sentbed_testing import engine_rules, parametrize_with_rules

PLUGINS = load_plugins()

# Beside itself, an engine is exact.
EXACT = {
    "gradients": {"loss": 0.0, "gradient": 0.0},
    "steps": {"tolerance": 0.0, "movement": 0.0},
    "momentum-and-queue": {"tolerance": 0.0},
}
ON_CPU = engine_rules(
    CPU, reference=CPU, plugins=PLUGINS, groups=EACH, tolerances=EXACT
)
SIMPLE_POOLERS = {"mean", "mean+head", "decoder"}
"""The plain pooler of each backbone; the slow tests have the others."""
OF_EVERY_BACKBONE = {"encode", "gradients"}
"""Rules that quick tests try with all backbones, and others with BERT."""


def is_quick(name):
    if "/" not in name:
        return True
    rule, backbone, pooler, *_ = name.split("/")
    return pooler in SIMPLE_POOLERS and (
        backbone == "bert" or rule in OF_EVERY_BACKBONE
    )


QUICK = {
    name: ON_CPU[name]
    for name in sorted(first_of_each(ON_CPU), key=[*ON_CPU].index)
    if is_quick(name)
}
SLOW = {name: rule for name, rule in ON_CPU.items() if name not in QUICK}


@parametrize_with_rules([QUICK])
def test_cpu_keeps_the_contract(rule):
    rule()


@pytest.mark.slow
@parametrize_with_rules([SLOW])
def test_cpu_keeps_the_contract_with_all_parts(rule):
    rule()
