"""Progress bars of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


def progress_bars() -> Progress:
    """Return progress bars on standard error, shown only if it is a terminal."""
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    columns = [
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    ]
    return progress.Progress(
        *columns,
        console=console,
        disable=not console.is_terminal,
    )
