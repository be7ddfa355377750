"""Several batches at a time on a processor, each on its share of the threads.

Threads of one operation wait for each other at its end, thousands of times a batch; those of two batches do
not.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import torch

KEPT = {-3: 32 << 20, -1: 256 << 20}
"""glibc's parameters (mallopt(3)): blocks of up to 32 MiB come from heaps (M_MMAP_THRESHOLD), and up to
256 MiB that are free at the end of a heap stay with the process (M_TRIM_THRESHOLD)."""

MALLOC_VARIABLES = (
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
    "GLIBC_TUNABLES",
)
"""By what a user sets them in the environment."""

T = TypeVar("T")
R = TypeVar("R")


def keep_freed_memory() -> bool:
    """Let the process keep the memory of one batch for the next one; returns whether it will.

    Otherwise heaps of threads give it back to the system and ask for it again, several times a batch: 2 % of
    the time in fp32. Other C libraries than glibc have other ways, and whoever has set up theirs
    by the environment keeps that.
    """
    if os.name != "posix" or not os.environ.keys().isdisjoint(MALLOC_VARIABLES):
        return False

    libc = ctypes.CDLL(None)
    return hasattr(libc, "mallopt") and all(
        libc.mallopt(*option) for option in KEPT.items()
    )


def in_streams(
    encode: Callable[[T], R], batches: Iterable[T], streams: int
) -> Iterator[R]:
    """Yield `encode(batch)` for each batch, in order; `streams` threads encode a batch each.

    The last ones, if there are too few for all streams, get all threads of the caller, one after the other.
    """
    threads = torch.get_num_threads()
    coming, waiting = iter(batches), deque[Future[R]]()
    pool = ThreadPoolExecutor(
        streams, "encode", _limit_threads, (max(1, threads // streams),)
    )
    try:
        while len(group := list(islice(coming, streams))) == streams:
            waiting.extend(pool.submit(encode, batch) for batch in group)
            while len(waiting) > streams:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        yield from map(encode, group)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _limit_threads(count: int) -> None:
    """Give operations of this thread that many threads; other threads that exist keep theirs."""
    # Asked for the first time in a thread, PyTorch sets the number that was set last in any.
    torch.get_num_threads()
    torch.set_num_threads(count)
