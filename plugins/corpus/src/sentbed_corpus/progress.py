"""Progress of a command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

Advance: TypeAlias = Callable[[int], None]
"""Function that is called with the number of texts finished since its last call."""
Bar: TypeAlias = Callable[[int, str], AbstractContextManager[Advance]]
"""Function that shows the progress of a step from its number of texts and its name, within a block."""

SECONDS = 15.0
"""Minimum number of seconds between two states of progress in a file, such as a log."""


def no_bar(total: int, step: str) -> AbstractContextManager[Advance]:
    """Show nothing."""
    return nullcontext(lambda _: None)


@contextmanager
def bar(total: int, step: str) -> Iterator[Advance]:
    """Show a progress bar on standard error."""
    from tqdm import tqdm

    interval = 0.1
    if not sys.stderr.isatty():
        interval = SECONDS
    progress = tqdm(
        total=total,
        desc=step,
        unit=" texts",
        mininterval=interval,
        delay=interval,
    )
    with progress:
        yield progress.update
