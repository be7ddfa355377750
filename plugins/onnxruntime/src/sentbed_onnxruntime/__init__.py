"""The runtime `onnxruntime` for sentbed, which encodes with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy


@hookimpl
def runtimes() -> Mapping[str, Lazy]:
    """Return the runtime of this distribution."""
    summary = (
        "ONNX Runtime on the host's processor, for encoding alone, in fp32 or int8."
    )
    return {
        "onnxruntime": Lazy("sentbed_onnxruntime.onnx_runtime:OnnxRuntime", summary)
    }
