"""The base class of runtimes that encode with a graph of another library (OpenVINO, ONNX Runtime)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import EncoderRecipe, Runtime


@attrs.frozen(kw_only=True)
class GraphRuntime(Runtime):
    """A runtime on the host's processor that only encodes, with a graph of backbone, pooler and projection."""

    threads: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of threads. The default is `OMP_NUM_THREADS` if it is set, else the number of cores."""

    offers = frozenset({"vector", "sparse"})

    @property
    def untrainable(self) -> str:
        """That the runtime cannot train."""
        return (
            f"the runtime `{self.name}` only encodes; train on `cpu` or `cuda`, and evaluate the encoder on "
            f"`{self.name}`"
        )

    def misfits(self, place: EncoderRecipe) -> Iterator[str]:
        """Yield each reason why a graph cannot compute an encoder.

        A graph has no interventions, no weights in less than fp32, and no states of a prompt's template without a
        text.
        """
        backbone, pooler = place.backbone, place.pooler
        if getattr(backbone, "intervention", None) is not None:
            yield (
                f"the runtime `{self.name}` has no interventions, which change states between a backbone's "
                "blocks; use the runtime `cpu`, or take the intervention out"
            )

        quantized = getattr(backbone, "quantization", None) is not None
        if quantized or getattr(backbone, "dtype", "fp32") != "fp32":
            yield (
                f"the runtime `{self.name}` computes from weights in fp32, and the backbone holds them in "
                'less; set its `dtype = "fp32"` without `quantization`, or use the runtime `cpu`'
            )

        if pooler.needs & {"template-alone", "template-alone-from-0"}:
            yield (
                f"the runtime `{self.name}` has no state of a template alone, which the pooler "
                f"`{pooler.name}` subtracts; use the runtime `cpu`, or set `denoise = false`"
            )

    def with_threads(self, threads: int) -> Self:
        """See `Runtime.with_threads`."""
        if self.threads is not None:
            return self

        return attrs.evolve(self, threads=threads)
