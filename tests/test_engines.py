"""Our engines keep the contract."""

from __future__ import annotations

import pytest
from contract_choice import CPU, EACH, TPU, first_of_each
from sentbed._registry.registry import load_plugins
from sentbed_testing import cases, engine_rules, parametrize_with_rules

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


def test_the_suite_tries_six_backbones_all_poolers_and_all_losses():
    every = cases(PLUGINS)
    names = engine_rules(TPU, reference=CPU, plugins=PLUGINS)
    assert {case.backbone_name for case in every} == {
        "bert",
        "t5",
        "t5-decoder",
        "opt",
        "llama",
        "static",
    }
    # Token vectors are of a few runtimes only: `tests/test_similarity.py` has them.
    poolers = set(PLUGINS.names("pooler")) - {"tokens"}
    assert {case.pooler.name for case in every} == poolers
    assert {case.loss.name for case in every} == set(PLUGINS.names("loss"))
    rules = {name.partition("/")[0] for name in names}
    assert rules == {
        *(
            "describe",
            "encode",
            "transform",
            "saved",
            "gradients",
            "grad-cache",
            "dropout",
            "derivative",
            "uneven-batch",
        ),
        *(
            "frozen-columns",
            "towers",
            "prompts",
            "clipping",
            "moving-average",
            "not-finite",
            "steps",
            "momentum-and-queue",
            "state",
        ),
    }
    encoders = {case.id.rpartition("/")[0] for case in every}
    assert encoders == {
        name.partition("/")[2].rpartition("/")[0]
        for name in names
        if name.startswith("encode/") and "+head" not in name
    }
