"""What several commands share: exit codes, options, bars, and a run in several processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.progress import Progress

    from sentbed.protocols import Runtime

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
"""Exit codes: what was asked for cannot be done; a run failed or missed its `[expected]`; Ctrl-C."""


def set_option(help: str = "Override a value; PATH= takes a key out.") -> Callable[[Any], Any]:
    """Return the option `--set PATH=VALUE`, which may be given several times."""
    return click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help=help)


set_before_axes = set_option("Override a value, before the axes do.")


def done_elsewhere(runtime: Runtime, arguments: Sequence[str]) -> int | None:
    """Return the exit code where this process is not the one that is to run the recipe; else None.

    Where the runtime wants several processes, they are started with these arguments of `sentbed`, and this
    one waits; where this is one of them and not the first, it works for the first until that ends.
    """
    code = runtime.launch([sys.executable, "-m", "sentbed", *arguments])
    if code is not None:
        return code
    return 0 if runtime.serve() else None


def progress_bars() -> Progress:
    """Return bars on standard error, shown where that is a terminal."""
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
