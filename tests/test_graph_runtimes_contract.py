"""Engines around graphs of another library keep the contract of engines that only encode."""

from __future__ import annotations

import pytest
from sentbed_onnxruntime.onnx_runtime import OnnxRuntime
from sentbed_openvino.openvino_runtime import OpenVino
from sentbed_testing import engine_rules, parametrize_with_rules

RUNTIMES = {"onnxruntime": OnnxRuntime(threads=1), "openvino": OpenVino(threads=1)}
RULES = {name: engine_rules(runtime) for name, runtime in RUNTIMES.items()}
# The tests of each runtime read a saved encoder, and `test_graph_runtimes.py` has one with whitening.
QUICK = {"describe", "encode/bert/mean/info-nce"}


def rules_named(quick):
    """Return the rules of each runtime that are tried in every run, or the others."""
    chosen = []
    for rules in RULES.values():
        chosen.append(
            {name: rule for name, rule in rules.items() if (name in QUICK) == quick}
        )
    return chosen


@pytest.mark.parametrize("rules", list(RULES.values()), ids=list(RULES))
def test_the_rules_ask_for_no_training_and_try_every_backbone(
    rules,
):
    assert set(rules) >= QUICK
    assert {name.partition("/")[0] for name in rules} == {
        "describe",
        "encode",
        "saved",
        "transform",
    }
    backbones = {name.split("/")[1] for name in rules if name.startswith("encode/")}
    assert backbones == {"bert", "t5", "t5-decoder", "static", "opt", "llama"}


@parametrize_with_rules(rules_named(quick=True))
def test_it_computes_what_the_runtime_cpu_does(rule):
    rule()


@pytest.mark.slow
@parametrize_with_rules(rules_named(quick=False))
def test_it_computes_with_all_parts_what_the_runtime_cpu_does(
    rule,
):
    rule()
