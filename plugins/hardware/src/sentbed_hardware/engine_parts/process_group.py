"""The group of processes that share every batch, seen from one of them."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import attrs
import torch
import torch.distributed as dist
from sentbed import RuntimeUnavailableError
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from sentbed_hardware._common.message_signatures import require_key
from sentbed_hardware._common.process_messages import Own, gather_in_first
from sentbed_hardware.torchrun_environment import is_member

FOREVER = timedelta(days=30)
"""Time limit for the next call of the first process, which may be in a long evaluation."""
WITHIN_A_CALL = timedelta(minutes=30)
"""Time limit for the other processes within a call."""
BUCKET = 2**23
"""Elements to sum in one message."""
IN_FLIGHT = 2
"""Messages in flight while the next one is prepared."""


def here(operation: Callable[..., Any], *arguments: Any) -> Any:
    """Run `operation(*arguments)` in this process."""
    return operation(
        *(
            argument.value if isinstance(argument, Own) else argument
            for argument in arguments
        )
    )


@attrs.define(eq=False)
class Processes:
    """This process among all; without arguments, a single process.

    Every method with an effect beyond this process is called by all of them.
    """

    rank: int = 0
    world: int = 1
    sharded: bool = False
    """Whether each process holds a share of the backbone's weights (FSDP), or all of them (DDP)."""
    local_gradient: bool = False
    """Whether gradients are averaged, as in SimCSE's script; their sum would be that of one device."""
    device: torch.device = attrs.field(factory=lambda: torch.device("cpu"))
    data: Any = None
    """Process group for tensors on the device; tensors on the host use the default group."""
    store: Any = None
    """Key-value store of all processes, usable even while one of them hangs."""
    together: Callable[..., Any] = here
    """`together(operation, *arguments)` in the first process has every process do it; see `Lead.call`."""
    asked: int = 0
    """Number of the signal that asked this process to end, or 0."""

    @property
    def first(self) -> bool:
        """Whether this is the process that runs the recipe and writes files."""
        return self.rank == 0

    def gather(self, rows: torch.Tensor, counts: Sequence[int]) -> torch.Tensor:
        """Return the rows of all processes, in rank order; `counts` are their numbers of rows."""
        if self.world == 1:
            return rows
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        found = [torch.empty_like(padded) for _ in range(self.world)]
        dist.all_gather(found, padded, group=self.data)
        return torch.cat(
            [part[:count] for part, count in zip(found, counts, strict=True)]
        )

    def sum(self, tensors: Sequence[torch.Tensor]) -> None:
        """Sum each tensor over the processes, in place."""
        if self.world == 1:
            return
        under_way: deque[tuple[list[torch.Tensor], torch.Tensor, Any]] = deque()

        def take() -> None:
            bucket, flat, work = under_way.popleft()
            work.wait()
            pieces = torch.split(flat, [tensor.numel() for tensor in bucket])
            for tensor, piece in zip(bucket, pieces, strict=True):
                tensor.copy_(piece.view_as(tensor))

        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
            under_way.append(
                (bucket, flat, dist.all_reduce(flat, group=self.data, async_op=True))
            )
            # In buckets, since a copy of all gradients would double their memory.
            if len(under_way) > IN_FLIGHT:
                take()
        while under_way:
            take()

    def same(self, tensors: Sequence[torch.Tensor]) -> None:
        """Broadcast the tensors of the first process, in place."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0, group=self.data)

    def highest(self, numbers: Sequence[int]) -> list[int]:
        """Return the maximum of each number over the processes."""
        if self.world == 1:
            return list(numbers)
        found = torch.tensor(numbers, dtype=torch.int32)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return [int(number) for number in found.tolist()]

    def collect(self, value: Any) -> list[Any] | None:
        """Return the values of all processes, in the first one."""
        if self.world == 1:
            return [value]
        return gather_in_first(value, self.rank, self.world)

    def interruption(self) -> list[int]:
        """Return, for `highest`, the signal that asked each process to end, as known in this process."""
        return [self.asked if rank == self.rank else 0 for rank in range(self.world)]


def interruption_in_words(signals: Sequence[int]) -> str | None:
    """Return which process was asked to end, in words, from `Processes.interruption`, or None."""
    return next(
        (
            f"{signal.Signals(number).name} to process {rank}"
            for rank, number in enumerate(signals)
            if number
        ),
        None,
    )


def _buckets(tensors: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    bucket: list[torch.Tensor] = []
    size = 0
    for tensor in tensors:
        if bucket and (
            size + tensor.numel() > BUCKET or tensor.dtype != bucket[0].dtype
        ):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor.numel()
    if bucket:
        yield bucket


def join(
    device: torch.device,
    asked_for: int,
    sharded: bool = False,
    local_gradient: bool = False,
) -> Processes:
    """Return this process among those started by `torchrun`, or as a single process if there are none.

    `asked_for` is the number of processes in the recipe; the other arguments are fields of `Processes`.

    Raises:
        RuntimeUnavailableError: if several are asked for and this is the only one.
        RunError: if this user's processes have no key to sign messages with.
    """
    if not is_member():
        if asked_for > 1:
            raise RuntimeUnavailableError(
                f"{asked_for} processes are asked for, and this is one that stands alone; "
                "start the recipe with `sentbed run` or `torchrun`, or set `devices` and `nodes` to 1"
            )
        return Processes()
    if int(os.environ["WORLD_SIZE"]) == 1:
        return Processes()
    if dist.is_initialized():
        raise RuntimeUnavailableError(
            "the processes work for an engine already; use that one"
        )
    # Without a key nothing can be sent; that is said before anything is read.
    require_key()
    store, rank, world = next(iter(rendezvous("env://", timeout=FOREVER)))
    store = PrefixStore("sentbed", store)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=world, timeout=FOREVER
    )
    backend = "nccl" if device.type == "cuda" else "gloo"
    return Processes(
        rank=rank,
        world=world,
        sharded=sharded,
        local_gradient=local_gradient,
        device=device,
        data=dist.new_group(backend=backend, timeout=WITHIN_A_CALL),
        store=store,
    )


def facts(processes: Processes) -> dict[str, Any]:
    """Return the facts about several processes for `describe`; none for a single one."""
    if processes.world == 1:
        return {}
    return {
        "processes": processes.world,
        "parallel": "fsdp" if processes.sharded else "ddp",
        "gradient": "local" if processes.local_gradient else "full",
    }


def lost(error: BaseException) -> bool:
    """Whether an error shows that another process has died."""
    if isinstance(error, dist.DistError):
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and (
        "gloo" in said or "by peer" in said or "nccl" in said
    )
