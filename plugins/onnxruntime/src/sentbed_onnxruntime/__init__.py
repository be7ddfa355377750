"""The runtime `onnxruntime` for sentbed, which encodes with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl


@hookimpl
def runtimes() -> Mapping[str, str]:
    """Return the runtime of this distribution."""
    return {"onnxruntime": "sentbed_onnxruntime.onnx_runtime:OnnxRuntime"}
