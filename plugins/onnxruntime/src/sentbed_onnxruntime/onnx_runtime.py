"""The runtime `onnxruntime`."""

from __future__ import annotations

from typing import ClassVar, Literal

import attrs
from sentbed.protocols import Engine
from sentbed_common import import_heavy
from sentbed_hardware.graph_runtime_base import GraphRuntime


@attrs.frozen(kw_only=True)
class OnnxRuntime(GraphRuntime):
    """ONNX Runtime on the host's processor, for encoding alone, in fp32 or int8.

    Backbone, pooler and projection become one graph when the first text is encoded. Before the graph is used, its
    vectors are compared with PyTorch's on a few batches. `int8` is ONNX Runtime's dynamic quantisation: weights
    have 7 bits with a scale per channel; inputs of products have 8 bits with a range that is measured in each
    batch.
    """

    name: ClassVar[str] = "onnxruntime"

    precision: Literal["fp32", "int8"] = "fp32"
    """Precision of the matrix products of backbone and projection. Everything else is computed in fp32."""

    def build(self) -> Engine:
        """Return the engine, and set the number of PyTorch's threads in this process."""
        import_heavy("sentbed_onnxruntime._torch.engine")
        from sentbed_onnxruntime._torch.engine import build_engine

        return build_engine(self.name, self.precision, self.threads)
