"""The runtime `openvino`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import Backbone, Engine, Head, Pooler, Runtime, RuntimeTraits
from sentbed_common import import_heavy
from sentbed_hardware.graph_limits import misfits_of_graph


@attrs.frozen(kw_only=True)
class OpenVino(Runtime):
    """OpenVINO on the host's processor, for encoding alone, in fp32, bf16 or int8.

    Backbone, pooler and projection become one graph when the first text is encoded; its vectors are compared
    with PyTorch's on a few batches before it is used. `int8` is NNCF's post-training quantisation with its
    pattern of transformers, calibrated on sentences that come with sentbed.
    """

    name: ClassVar[str] = "openvino"
    traits = RuntimeTraits(
        untrainable="the runtime `openvino` only encodes; train on `cpu` or `cuda`, and evaluate the encoder "
        "on `openvino`",
        marked_tokens=False,
    )

    precision: Literal["fp32", "bf16", "int8"] = "fp32"
    """`bf16` needs AMX or AVX-512 bf16 instructions, `int8` AMX or VNNI. What `int8` leaves out is bf16 where
    the processor has it, else fp32."""
    threads: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Threads of all streams together; default: `OMP_NUM_THREADS`, or all cores."""
    streams: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Batches encoded at a time, each on its share of the threads; default: the largest divisor of the
    threads up to 4."""

    def misfits(self, backbone: Backbone, pooler: Pooler, head: Head) -> Iterator[str]:
        """Yield what a graph has no form of: interventions, weights below fp32, templates alone."""
        return misfits_of_graph(self.name, backbone, pooler)

    def variants(self) -> Iterator[OpenVino]:
        """Yield the runtime in each precision."""
        for precision in ("fp32", "bf16", "int8"):
            yield attrs.evolve(self, precision=precision)

    def with_threads(self, threads: int) -> OpenVino:
        """See `Runtime.with_threads`."""
        if self.threads is not None:
            return self

        return attrs.evolve(self, threads=threads)

    def build(self) -> Engine:
        """Return the engine, and set the number of PyTorch's threads in this process.

        Raises:
            RuntimeUnavailableError: for `bf16` or `int8` on a processor without such instructions.
        """
        import_heavy("sentbed_openvino._torch.engine")
        from sentbed_openvino._torch.engine import build_engine

        return build_engine(self.name, self.precision, self.threads, self.streams)
