"""The runtime `openvino`."""

from __future__ import annotations

from typing import ClassVar, Literal

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import Engine
from sentbed_common import import_heavy
from sentbed_hardware.graph_runtime_base import GraphRuntime


@attrs.frozen(kw_only=True)
class OpenVino(GraphRuntime):
    """OpenVINO on the host's processor, for encoding alone, in fp32, bf16 or int8.

    Backbone, pooler and projection become one graph when the first text is encoded. Before the graph is used, its
    vectors are compared with PyTorch's on a few batches. `int8` is NNCF's post-training quantisation for
    transformers, calibrated on sentences that come with sentbed.
    """

    name: ClassVar[str] = "openvino"

    precision: Literal["fp32", "bf16", "int8"] = "fp32"
    """`bf16` needs AMX or AVX-512 instructions for bf16, `int8` needs AMX or VNNI. With `int8`, operations that
    are not quantised are computed in bf16 if the processor has instructions for it, else in fp32."""
    streams: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of batches that are encoded at a time, each on an equal share of the threads. The default is the
    largest divisor of `threads` up to 4."""

    def build(self) -> Engine:
        """Return the engine, and set the number of PyTorch's threads in this process.

        Raises:
            RuntimeUnavailableError: if the processor has no instructions for `bf16` or `int8`.
        """
        import_heavy("sentbed_openvino._torch.engine")
        from sentbed_openvino._torch.engine import build_engine

        return build_engine(self.name, self.precision, self.threads, self.streams)
