"""The runtime `tpu`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import attrs
from attrs.validators import deep_iterable, ge, min_len, optional
from sentbed.protocols import OF_MACHINE, Engine, Runtime, RuntimeTraits
from sentbed_hardware.distributed_base import Distributed
from sentbed_hardware.torchrun_environment import is_first


@attrs.frozen
class Tpu(Runtime):
    """JAX and XLA on TPUs, through torchax: the same torch modules, compiled.

    Every batch shape is compiled once, so batches are padded to few shapes: a length of `lengths`, and a
    power of two of rows. Vectors, losses and optimiser states are fp32 in both precisions.
    """

    name: ClassVar[str] = "tpu"

    platform: Literal["tpu", "cpu"] = "tpu"
    """`cpu` runs the same path on JAX's CPU backend, to try it out without a TPU."""
    precision: Literal["fp32", "bf16", "auto"] = "bf16"
    """`bf16`: the backbone's products, with fp32 weights. `fp32` takes six passes of a TPU's bf16 units.
    `auto` is bf16, which every TPU has."""
    devices: int | None = attrs.field(
        default=None, validator=optional(ge(1)), metadata=OF_MACHINE
    )
    """Devices per machine, each of which takes its share of the rows; default: all. On the platform `cpu`,
    the number of virtual devices; default: one."""
    nodes: int = attrs.field(default=1, validator=ge(1), metadata=OF_MACHINE)
    """Machines, with one process each; the same recipe is started on each of them."""
    rendezvous: str | None = attrs.field(default=None, metadata=OF_MACHINE)
    """`HOST:PORT` of the first machine, with a free port; needed for several machines."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """Over several devices: `ddp`, each has all weights; `fsdp`, weights, gradients and the optimiser's state
    are spread over them."""
    lengths: tuple[int, ...] = attrs.field(
        default=(16, 32, 64, 128, 256, 512),
        validator=[min_len(1), deep_iterable(ge(1))],
    )
    """Lengths in tokens to which texts are padded, ascending; longer texts are padded to the next power of
    two."""
    token_budget: int = attrs.field(default=16384, validator=ge(1))
    """Tokens per device and batch."""

    def check(self) -> Iterator[str]:
        """Yield problems that show without loading."""
        if list(self.lengths) != sorted(set(self.lengths)):
            yield f"`lengths` are {list(self.lengths)}, expected ascending numbers; sort them"
        yield from self.machines.check()

    @property
    def machines(self) -> Distributed:
        """The processes of the run: one per machine, whatever the number of its devices."""
        return Distributed(nodes=self.nodes, rendezvous=self.rendezvous)

    @property
    def traits(self) -> RuntimeTraits:
        """The number of processes of a run."""
        return RuntimeTraits(processes=self.machines.traits.processes)

    def launch(self, command: Sequence[str]) -> int | None:
        """Start the process of this machine among several; see `Distributed.launch`."""
        return self.machines.launch(command)

    def serve(self) -> bool:
        """Work for the first process, if this is another one; see `Distributed.serve`."""
        if is_first():
            return False
        from sentbed_hardware.engine_parts.calls_in_all_processes import serve

        try:
            serve(self)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the process ends here
            # On exit, JAX would wait for processes that wait for this one.
            if not isinstance(error, SystemExit):
                print(f"error: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        return True

    def build(self) -> Engine:
        """Claim the devices.

        Raises:
            RuntimeUnavailableError: if JAX has no such devices.
        """
        from sentbed_tpu._jax.build_engine import build_engine

        return build_engine(
            platform=self.platform,
            bf16=self.precision != "fp32",
            devices=self.devices,
            nodes=self.nodes,
            parallel=self.parallel,
            lengths=self.lengths,
            token_budget=self.token_budget,
        )
