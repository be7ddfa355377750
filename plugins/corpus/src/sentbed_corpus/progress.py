"""Progress of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TypeAlias

Advance: TypeAlias = Callable[[int], None]
"""Function that is called with the number of texts finished since its last call."""
Bar: TypeAlias = Callable[[int, str], AbstractContextManager[Advance]]
"""Function that shows the progress of a step from its number of texts and its name, within a block."""


def no_bar(total: int, step: str) -> AbstractContextManager[Advance]:
    """Show nothing."""
    return nullcontext(lambda _: None)


@contextmanager
def bar(total: int, step: str) -> Iterator[Advance]:
    """Show a progress bar, or lines if there is no terminal."""
    import click
    from sentbed_common import progress_bars
    from sentbed_jobs.progress_lines import ProgressLines

    with progress_bars() as progress:
        if progress.disable:
            yield ProgressLines(step, total, partial(click.echo, err=True)).advance
            return
        task = progress.add_task(step, total=total)
        yield lambda done: progress.update(task, advance=done)
