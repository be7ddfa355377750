"""Encoding of several batches at a time on a CPU, each on an equal share of the threads.

This is faster than one batch at a time on all threads: at the end of each of the thousands of operations of a
batch, its threads wait for each other, but not for the threads of other batches.
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
"""Number of a parameter of glibc's mallopt(3) -> value in bytes. Blocks of up to M_MMAP_THRESHOLD (-3) bytes come
from a heap. The process keeps up to M_TRIM_THRESHOLD (-1) bytes of free memory at the end of a heap."""

MALLOC_VARIABLES = (
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
    "GLIBC_TUNABLES",
)
"""Environment variables with which a user sets these parameters."""

T = TypeVar("T")
R = TypeVar("R")


def keep_freed_memory() -> bool:
    """Let the C library keep the memory of one batch for the next one. Return whether this was possible.

    By default, the memory is returned to the system and requested again several times per batch, which takes 2 %
    of the time in fp32. Only glibc has these settings. Nothing is set if the environment has `MALLOC_VARIABLES`.
    """
    if os.name != "posix" or not os.environ.keys().isdisjoint(MALLOC_VARIABLES):
        return False

    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return False

    return all(libc.mallopt(option, value) for option, value in KEPT.items())


def in_streams(
    encode: Callable[[T], R],
    batches: Iterable[T],
    streams: int,
) -> Iterator[R]:
    """Yield `encode(batch)` for each batch, in order. `streams` batches are encoded at a time.

    If fewer batches than that are left at the end, they are encoded one after another, on all threads.
    """
    threads = torch.get_num_threads()
    threads_of_stream = max(1, threads // streams)
    coming = iter(batches)
    started: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(streams, "encode", _limit_threads, (threads_of_stream,))
    try:
        while len(group := list(islice(coming, streams))) == streams:
            for batch in group:
                started.append(pool.submit(encode, batch))
            while len(started) > streams:
                yield started.popleft().result()

        while started:
            yield started.popleft().result()
        yield from map(encode, group)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _limit_threads(count: int) -> None:
    """Set the number of OpenMP threads for operations that this Python thread calls."""
    # The first call in a new thread applies the number that was last set in any thread, so `set` comes second.
    torch.get_num_threads()
    torch.set_num_threads(count)
