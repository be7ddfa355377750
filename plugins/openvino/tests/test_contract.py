"""The engine keeps the contract of engines that only encode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sentbed_openvino.openvino_runtime import OpenVino
from sentbed_testing import engine_suite

CHECKS = dict(engine_suite(OpenVino(threads=1)))
QUICK = {
    "describe",
    "encode/bert/mean/info-nce",
    "saved/bert/mean+head/info-nce",
    "transform/bert/mean/info-nce",
}


def test_the_suite_asks_for_no_training_and_tries_every_backbone() -> None:
    assert set(CHECKS) >= QUICK
    assert {name.partition("/")[0] for name in CHECKS} == {
        "describe",
        "encode",
        "saved",
        "transform",
    }
    backbones = {name.split("/")[1] for name in CHECKS if name.startswith("encode/")}
    assert backbones == {"bert", "t5", "t5-decoder", "static", "opt", "llama"}


def _marked(name: str, check: Callable[[], None]) -> object:
    if name in QUICK:
        return pytest.param(check, id=name)
    return pytest.param(check, id=name, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "check", [_marked(name, check) for name, check in CHECKS.items()]
)
def test_it_computes_what_the_runtime_cpu_does(check: Callable[[], None]) -> None:
    check()
