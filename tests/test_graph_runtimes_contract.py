"""Engines around graphs of another library keep the contract of engines that only encode."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sentbed_onnxruntime.onnx_runtime import OnnxRuntime
from sentbed_openvino.openvino_runtime import OpenVino
from sentbed_testing import engine_suite

RUNTIMES = {"onnxruntime": OnnxRuntime(threads=1), "openvino": OpenVino(threads=1)}
SUITES = {name: dict(engine_suite(runtime)) for name, runtime in RUNTIMES.items()}
QUICK = {
    "describe",
    "encode/bert/mean/info-nce",
    "saved/bert/mean+head/info-nce",
    "transform/bert/mean/info-nce",
}


@pytest.mark.parametrize("checks", list(SUITES.values()), ids=list(SUITES))
def test_the_suite_asks_for_no_training_and_tries_every_backbone(
    checks: dict[str, Callable[[], None]],
) -> None:
    assert set(checks) >= QUICK
    assert {name.partition("/")[0] for name in checks} == {
        "describe",
        "encode",
        "saved",
        "transform",
    }
    backbones = {name.split("/")[1] for name in checks if name.startswith("encode/")}
    assert backbones == {"bert", "t5", "t5-decoder", "static", "opt", "llama"}


def cases() -> Iterator[object]:
    """Yield each check of each runtime; most are slow."""
    for runtime, checks in SUITES.items():
        for name, check in checks.items():
            marks = [] if name in QUICK else [pytest.mark.slow]
            yield pytest.param(check, id=f"{runtime}/{name}", marks=marks)


@pytest.mark.parametrize("check", list(cases()))
def test_it_computes_what_the_runtime_cpu_does(check: Callable[[], None]) -> None:
    check()
