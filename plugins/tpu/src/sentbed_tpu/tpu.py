"""The runtime `tpu`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs
from attrs.validators import deep_iterable, ge, min_len, optional
from sentbed.protocols import Engine, Runtime


@attrs.frozen
class Tpu(Runtime):
    """JAX and XLA on TPUs, through torchax: the same torch modules, compiled.

    Each shape of a batch has to be compiled, so batches are padded to few shapes: their length is one of
    `lengths`, and their number of rows doubles from one shape to the next. Vectors, losses and optimiser states
    are fp32 with both precisions.
    """

    name: ClassVar[str] = "tpu"

    platform: Literal["tpu", "cpu"] = "tpu"
    """`cpu` runs the same code on JAX's CPU backend, to try the runtime out without a TPU."""
    precision: Literal["fp32", "bf16", "auto"] = "bf16"
    """With `bf16`, weights are fp32 and the backbone's matrix products are computed in bf16. With `fp32`, a TPU
    computes each product in six bf16 passes. `auto` is `bf16`, which every TPU supports."""
    devices: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of devices, which share the rows of a batch; default: all. On the platform `cpu`, it is the number
    of virtual devices; default: 1."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """With several devices: `ddp` puts all weights on every device, `fsdp` shards weights, gradients and the
    optimiser's state over the devices."""
    lengths: tuple[int, ...] = attrs.field(
        default=(16, 32, 64, 128, 256, 512),
        validator=[min_len(1), deep_iterable(ge(1))],
    )
    """Lengths in tokens to which texts are padded, ascending. Longer texts are padded to the next power of
    two."""
    token_budget: int = attrs.field(default=16384, validator=ge(1))
    """Largest number of tokens per batch on each device."""

    def check(self) -> Iterator[str]:
        """Yield the problems of the fields of this class."""
        if list(self.lengths) != sorted(set(self.lengths)):
            yield f"`lengths` are {list(self.lengths)}, expected ascending numbers; sort them"

    def build(self) -> Engine:
        """Claim the devices, and return the engine.

        Raises:
            RuntimeUnavailableError: if JAX does not find the devices.
        """
        from sentbed_tpu._jax.build_engine import build_engine

        return build_engine(
            platform=self.platform,
            bf16=self.precision != "fp32",
            devices=self.devices,
            parallel=self.parallel,
            lengths=self.lengths,
            token_budget=self.token_budget,
        )
