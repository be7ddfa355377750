"""The group of processes that share every batch, and the collective operations between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import attrs
import torch
import torch.distributed as dist
from sentbed import RuntimeUnavailableError
from torch import Tensor

from sentbed_hardware.torchrun_environment import started_processes

FOREVER = timedelta(days=30)
"""Time limit of waiting for the next call of the first process, since an evaluation may take days."""
WITHIN_A_CALL = timedelta(minutes=30)
"""Time limit of waiting for another process during a call."""


@attrs.define(eq=False)
class Processes:
    """The processes of a run, seen from this process. `Processes()` is a run in a single process.

    `gather`, `sum` and `same` are collective operations: every process has to call them.
    """

    rank: int = 0
    world: int = 1
    sharded: bool = False
    """Whether each process has a share of the backbone's weights (FSDP) instead of all weights (DDP)."""
    device: torch.device = attrs.field(factory=lambda: torch.device("cpu"))
    data: Any = None
    """torch's process group for tensors on the device. torch's default group is for tensors on the host."""
    lead: Any = None
    """The `Lead` if this is the first of several processes, else None."""

    @property
    def first(self) -> bool:
        """Whether this is the process that runs the recipe and writes files."""
        return self.rank == 0

    @property
    def leads(self) -> bool:
        """Whether a call has to be sent to the other processes.

        This is so in the first of several processes, unless all of them are running a call already.
        """
        return self.lead is not None and not self.lead.calling

    def together(self, operation: Callable[..., Any], *arguments: Any) -> Any:
        """Run `operation(*arguments)` in every process, and return the result of this process."""
        return self.results(operation, *arguments)[0]

    def results(self, operation: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Run `operation(*arguments)` in every process, and return the result of each."""
        if self.leads:
            results: list[Any] = self.lead.call(operation, arguments)
            return results

        return [operation(*arguments)]

    def gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Return the rows of all processes, in rank order. `counts` has the number of rows of each process."""
        if self.world == 1:
            return rows

        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in range(self.world)]
        dist.all_gather(parts, padded, group=self.data)
        filled = [part[:count] for part, count in zip(parts, counts, strict=True)]
        return torch.cat(filled)

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Sum each tensor over the processes, in place."""
        if self.world == 1:
            return

        # All operations are started at once. Copying the tensors into large buffers took twice as long.
        pending = []
        for tensor in tensors:
            work = dist.all_reduce(tensor, group=self.data, async_op=True)
            pending.append(work)

        for work in pending:
            work.wait()

    def same(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite each tensor with that of the first process."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0, group=self.data)


def join(
    device: torch.device,
    asked_for: int,
    sharded: bool = False,
) -> Processes:
    """Connect this process with the others that `torchrun` has started, and return the group.

    `asked_for` is the number of processes in the recipe. `device` and `sharded` are fields of `Processes`.

    Raises:
        RuntimeUnavailableError: if the recipe sets several processes and this is the only one, or if another
            engine uses the processes already.
    """
    started = started_processes()
    if started is None:
        if asked_for > 1:
            raise RuntimeUnavailableError(
                f"the recipe sets {asked_for} processes, and this is the only one; "
                "start the recipe with `sentbed run` or `torchrun`, or set `devices` to 1"
            )
        return Processes()

    if started == 1:
        return Processes()

    if dist.is_initialized():
        raise RuntimeUnavailableError(
            "the processes belong to another engine already; use that engine"
        )

    dist.init_process_group("gloo", timeout=FOREVER)
    backend = "gloo"
    if device.type == "cuda":
        backend = "nccl"
    return Processes(
        rank=dist.get_rank(),
        world=dist.get_world_size(),
        sharded=sharded,
        device=device,
        data=dist.new_group(backend=backend, timeout=WITHIN_A_CALL),
    )


def facts(processes: Processes) -> dict[str, Any]:
    """Return facts about the processes for `Engine.describe`; empty for a single process."""
    if processes.world == 1:
        return {}

    return {
        "processes": processes.world,
        "parallel": "fsdp" if processes.sharded else "ddp",
    }
