"""The runtimes' part of `sentbed plan`; see `sentbed_common.resource_planning`."""

from __future__ import annotations

import os

from sentbed import RuntimeUnavailableError
from sentbed.protocols import Loss, Pooler
from sentbed_common import Device, PlannedRuntime, Sketch


class TorchPlanned(PlannedRuntime):
    """A runtime that runs torch modules; poolers and losses are built with tensors without content."""

    __slots__ = ()

    def sketch_pooler(self, pooler: Pooler, width: int) -> Sketch:
        """Return the sketch of a pooler over token states of this width."""
        from sentbed_hardware._torch.resource_planning import sketch_pooler

        return sketch_pooler(pooler, width)

    def sketch_loss(self, loss: Loss, width: int, batch_size: int, columns: frozenset[str]) -> Sketch:
        """Return the sketch of a loss over vectors of this width."""
        from sentbed_hardware._torch.resource_planning import sketch_loss

        return sketch_loss(loss, width, batch_size, columns)


class PlannedProcessor(TorchPlanned):
    """A runtime on the host's processor."""

    __slots__ = ()

    def outline(self, on: str | None = None) -> Device:
        """Return this machine, timed; raises `RuntimeUnavailableError` for another one."""
        if on is not None:
            raise RuntimeUnavailableError(
                f"the runtime `cpu` is timed where it runs, and cannot say what a `{on}` does; leave out "
                "`--on`, or plan another runtime: `--set runtime.use=cuda`"
            )
        # As in `Cpu.build`, for a process that then runs the recipe.
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
        from sentbed_hardware._torch.resource_planning import cpu

        return cpu(self)


class PlannedAccelerator(TorchPlanned):
    """A runtime on devices with published peak rates."""

    __slots__ = ()

    def outline(self, on: str | None = None) -> Device:
        """Return this machine's device, or the one named; raises `RuntimeUnavailableError`."""
        from sentbed_hardware._torch.resource_planning import accelerator

        return accelerator(self, on)
