from __future__ import annotations

from sentbed_onnxruntime.onnx_runtime import OnnxRuntime
from sentbed_testing import check_component


def test_the_runtime_keeps_the_contract() -> None:
    assert check_component(OnnxRuntime, kind="runtime").not_run == {}
