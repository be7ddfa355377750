"""The base class of runtimes with several processes: their fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import attrs
from attrs.validators import ge
from sentbed.protocols import OF_MACHINE, Output, RuntimeTraits

from sentbed_hardware.torchrun_environment import is_first, is_member

ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]/]+):\d{1,5}")


@attrs.frozen(kw_only=True)
class Distributed:
    """Fields of a runtime that spreads batches over devices, with one process per device.

    The result is that of one device: the loss sees the vectors of the whole batch. Only the first process
    runs the recipe and writes; the others repeat the calls of its engine. If `torchrun` has started the
    processes, these are used, whatever `devices` and `nodes` are.
    """

    devices: int = attrs.field(default=1, validator=ge(1), metadata=OF_MACHINE)
    """Processes on each machine, one device each."""
    nodes: int = attrs.field(default=1, validator=ge(1), metadata=OF_MACHINE)
    """Machines; the same recipe is started on each of them."""
    rendezvous: str | None = attrs.field(default=None, metadata=OF_MACHINE)
    """`HOST:PORT` of the first machine, with a free port; needed for several machines."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """`ddp`: every process holds all weights (Li et al., 2020). `fsdp`: each holds a share of the backbone's
    weights, gradients and optimiser state, and has the rest sent when it is needed (Zhao et al., 2023;
    PyTorch's FSDP2)."""
    gradient: Literal["full", "local"] = "full"
    """`full`: the gradient of one device. `local`: that of SimCSE's released script, where each process has
    the gradient of its own vectors only, with those of the others as constants, and gradients are averaged.
    It is `full` divided by the number of processes, except for the loss's own parameters, of which every
    process has the whole gradient. AdamW and Adafactor are nearly invariant to a factor; clipping is not."""

    def check(self) -> Iterator[str]:
        """Yield problems with the settings for several machines."""
        if self.rendezvous is not None and not ADDRESS.fullmatch(self.rendezvous):
            yield (
                f"`rendezvous` is {self.rendezvous!r}, expected HOST:PORT; "
                'give the first machine, such as "node-1:29500"'
            )

        if self.nodes > 1 and self.rendezvous is None:
            yield (
                f"`nodes` is {self.nodes}, and nothing says where they meet; "
                'add `rendezvous = "HOST:PORT"` with the first machine and a port that is free there'
            )

        if self.parallel == "fsdp" and getattr(self, "compile", False):
            yield 'what `parallel = "fsdp"` spreads over processes is not compiled; set `compile = false`'

    @property
    def traits(self) -> RuntimeTraits:
        """The number of processes of a run, and what they support.

        An auxiliary pass ends early, which neither a compiler nor sharded weights allow. Token vectors need a
        single process without a compiler, since their number differs between texts.
        """
        processes = self.devices * self.nodes
        plain = self.parallel == "ddp" and not getattr(self, "compile", False)
        outputs: frozenset[Output] = frozenset({"vector", "sparse"})
        if plain and processes == 1:
            outputs |= {"tokens"}
        return RuntimeTraits(
            processes=processes,
            auxiliary=plain,
            predicts=processes == 1,
            outputs=outputs,
        )

    def launch(self, command: Sequence[str]) -> int | None:
        """Start the processes of this machine, wait for them and return the exit code of the first.

        Returns None if the recipe needs one process only, or if this is one of several already.
        """
        if self.traits.processes == 1 or is_member():
            return None

        from sentbed_hardware.launching import launch

        return launch(command, self.devices, self.nodes, self.rendezvous)

    def serve(self) -> bool:
        """Unless this is the first process, repeat its calls until it ends and return True."""
        if is_first():
            return False

        from sentbed_hardware.engine_parts.calls_in_all_processes import serve

        serve(self)
        return True
