from __future__ import annotations

from sentbed_onnxruntime.onnx_runtime import OnnxRuntime
from sentbed_testing import RuntimeContract, parametrize_with_rules


@parametrize_with_rules([OnnxRuntime], must_run=True)
def test_the_runtime_keeps_the_rules(rule):
    rule()


class TestOnnxRuntime(RuntimeContract):
    component = OnnxRuntime(threads=1)
