"""The base class of runtimes that run in several processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs
from attrs.validators import ge

from sentbed_hardware.torchrun_environment import (
    is_first,
    is_member,
    started_processes,
)


@attrs.frozen(kw_only=True)
class Distributed:
    """A runtime that spreads each batch over several devices, with one process per device.

    Results are those of a run on a single device, since the loss is computed on the vectors of the whole batch.
    Only the first process runs the recipe and writes files. The other processes repeat every call that the first
    process makes to its engine. If `torchrun` has started the processes, on one machine or on several, `devices`
    is ignored.
    """

    devices: int = attrs.field(default=1, validator=ge(1))
    """Number of processes. Each has one device of this machine."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """`ddp`: every process holds all weights (Li et al., 2020). `fsdp`: every process holds a share of the
    backbone's weights, gradients and optimiser state; the weights of a layer are gathered while it computes
    (Zhao et al., 2023; PyTorch's FSDP2)."""

    @property
    def processes(self) -> int:
        """Number of processes of a run."""
        return started_processes() or self.devices

    @property
    def offers(self) -> frozenset[str]:
        """What engines of transformers offer.

        Encoders that are divided take no second prompt and give no vectors of tokens; these are given in one
        process only.
        """
        offers = frozenset({"vector", "sparse", "marked-tokens"})
        if self.parallel == "fsdp":
            return offers
        if self.processes > 1:
            return offers | {"auxiliary-prompt"}
        return offers | {"auxiliary-prompt", "tokens"}

    def launch(self, command: Sequence[str]) -> int | None:
        """Start the processes, wait for them, and return the exit code of the first one.

        Returns None if the recipe needs only one process, or if `torchrun` has started this process.
        """
        if self.processes == 1 or is_member():
            return None

        from sentbed_hardware.launching import launch

        return launch(command, self.devices)

    def serve(self) -> bool:
        """Repeat the calls of the first process until it ends, and return True.

        In the first process itself, return False immediately.
        """
        if is_first():
            return False

        from sentbed_hardware.engine_parts.calls_in_all_processes import serve

        serve(self)
        return True
