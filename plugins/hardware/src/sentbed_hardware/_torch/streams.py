"""Several batches at a time on a processor, each on its share of the threads.

Threads of one operation wait for each other at its end, thousands of times a batch; those of two batches do
not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import torch

MOST = 4
"""Streams by default, at most: Python runs in one of them at a time, and few batches are for few streams."""

T = TypeVar("T")
R = TypeVar("R")


def streams_on(threads: int) -> int:
    """Return how many streams suit that many threads: none is left idle."""
    return max(count for count in range(1, MOST + 1) if threads % count == 0)


def in_streams(encode: Callable[[T], R], batches: Iterable[T], streams: int) -> Iterator[R]:
    """Yield `encode(batch)` for each batch, in order; `streams` threads encode a batch each.

    The last ones, if there are too few for all streams, get all threads of the caller, one after the other.
    """
    threads = torch.get_num_threads()
    coming, waiting = iter(batches), deque[Future[R]]()
    pool = ThreadPoolExecutor(streams, "encode", _limit_threads, (max(1, threads // streams),))
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
