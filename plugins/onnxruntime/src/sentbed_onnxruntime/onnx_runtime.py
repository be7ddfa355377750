"""The runtime `onnxruntime`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import Backbone, Engine, Head, Pooler, Runtime, RuntimeTraits
from sentbed_common import import_heavy
from sentbed_hardware.graph_limits import misfits_of_graph


@attrs.frozen(kw_only=True)
class OnnxRuntime(Runtime):
    """ONNX Runtime on the host's processor, for encoding alone, in fp32 or int8.

    Backbone, pooler and projection become one graph when the first text is encoded; its vectors are compared
    with PyTorch's on a few batches before it is used. `int8` is ONNX Runtime's dynamic quantisation: weights
    of 7 bits a channel, inputs of products in uint8 with a range found in each batch.
    """

    name: ClassVar[str] = "onnxruntime"
    traits = RuntimeTraits(
        untrainable="the runtime `onnxruntime` only encodes; train on `cpu` or `cuda`, and evaluate the "
        "encoder on `onnxruntime`",
        marked_tokens=False,
    )

    precision: Literal["fp32", "int8"] = "fp32"
    """Of the backbone's and the projection's products; all else is fp32."""
    threads: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Threads of one operation; default: `OMP_NUM_THREADS`, or all cores."""

    def misfits(self, backbone: Backbone, pooler: Pooler, head: Head) -> Iterator[str]:
        """Yield what a graph has no form of: interventions, weights below fp32, templates alone."""
        return misfits_of_graph(self.name, backbone, pooler)

    def variants(self) -> Iterator[OnnxRuntime]:
        """Yield the runtime in each precision."""
        for precision in ("fp32", "int8"):
            yield attrs.evolve(self, precision=precision)

    def with_threads(self, threads: int) -> OnnxRuntime:
        """See `Runtime.with_threads`."""
        if self.threads is not None:
            return self

        return attrs.evolve(self, threads=threads)

    def build(self) -> Engine:
        """Return the engine, and set the number of PyTorch's threads in this process."""
        import_heavy("sentbed_onnxruntime._torch.engine")
        from sentbed_onnxruntime._torch.engine import build_engine

        return build_engine(self.name, self.precision, self.threads)
