from __future__ import annotations

from sentbed_onnxruntime.onnx_runtime import OnnxRuntime
from sentbed_testing import RuntimeContract


class TestOnnxRuntime(RuntimeContract):
    component = OnnxRuntime(threads=1)
