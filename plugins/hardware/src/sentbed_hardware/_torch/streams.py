"""Encoding of several batches at a time on a CPU, each on its share of the threads.

The threads of an operation wait for each other at its end, thousands of times per batch. Threads of different
batches do not.
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
"""Parameters of glibc's mallopt(3): M_MMAP_THRESHOLD, the size up to which blocks come from heaps, and
M_TRIM_THRESHOLD, the free memory at the end of a heap that is not returned to the system, in bytes."""

MALLOC_VARIABLES = (
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
    "GLIBC_TUNABLES",
)
"""Environment variables that set these parameters."""

T = TypeVar("T")
R = TypeVar("R")


def keep_freed_memory() -> bool:
    """Keep the memory of one batch for the next one; return whether the parameters could be set.

    Otherwise the threads' heaps are returned to the system and requested again, several times per batch: 2 %
    of the time in fp32. Only glibc has these parameters, and those in the environment take precedence.
    """
    if os.name != "posix" or not os.environ.keys().isdisjoint(MALLOC_VARIABLES):
        return False

    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return False

    return all(libc.mallopt(option, value) for option, value in KEPT.items())


def in_streams(
    encode: Callable[[T], R], batches: Iterable[T], streams: int
) -> Iterator[R]:
    """Yield `encode(batch)` for each batch, in order, from `streams` threads.

    If the last batches are too few for all streams, each gets all of the caller's threads in turn.
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
    """Set the number of threads for operations of this thread; other threads keep theirs."""
    # The first call in a thread sets the number that was set last in any thread.
    torch.get_num_threads()
    torch.set_num_threads(count)
