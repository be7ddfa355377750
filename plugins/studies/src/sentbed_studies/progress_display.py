"""Shows the progress of the runs of a study on the terminal while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed.errors import printable
from sentbed_report.study.read_cell_run import manifest_status

from sentbed_studies.run_progress import RunLog
from sentbed_studies.shared_work_plan import Prefix, Task, Work
from sentbed_studies.time_left import TimeLeft

if TYPE_CHECKING:
    from rich.text import Text
    from sentbed_jobs.pool_loop import Say

EVERY = 15.0
"""Mean seconds between two progress lines if standard error is not a terminal."""


@attrs.define(eq=False)
class ProgressDisplay:
    """Progress lines of the runs of a study that are running."""

    directory: Path
    work: Work
    left: TimeLeft
    started: float = attrs.field(factory=time.time)
    """Start of the display, in seconds since 1970. Runs that began earlier are not shown, since they may have
    been killed."""

    _logs: dict[Path, RunLog] = attrs.field(factory=dict, init=False)
    _finished: set[Path] = attrs.field(factory=set, init=False)

    def lines(self) -> list[str]:
        """Return a line for each run that is running and began after `started`.

        It has the step, the loss, the time since the run's start, and the time left.
        """
        lines = []
        runs: list[Prefix | Task] = [*self.work.prefixes, *self.work.tasks]
        for run in runs:
            line = self._line(run)
            if line is not None:
                lines.append(line)
        return lines

    def _line(self, run: Prefix | Task) -> str | None:
        """Return the line of a run; None if the run is not running, or began before `started`."""
        if run.directory in self._finished:
            return None

        status = manifest_status(self.directory / run.directory)
        if status == "finished":
            # A finished run of a cell that lacks evaluations may be trained again.
            if isinstance(run, Prefix) or run.is_done(self.directory):
                self._finished.add(run.directory)
            return None
        if status != "running":
            return None

        log = self._logs.setdefault(
            run.directory, RunLog(self.directory / run.directory)
        )
        seconds = None if isinstance(run, Prefix) else self.left.of_run()
        progress = log.progress(seconds)
        # The manifest of a killed run says "running" until the run is resumed.
        if progress is None or log.began is None or log.began < self.started:
            return None
        return f"{run}: {progress}"

    def text(self) -> Text:
        """Return the progress lines and the time left for all runs, for a terminal."""
        from rich.text import Text

        lines = self.lines()
        time_left = self.left.in_words()
        if time_left is not None:
            lines.append(f"all runs: {time_left} left")
        return Text(printable("\n".join(lines)), overflow="ellipsis", no_wrap=True)


@contextmanager
def watching(
    directory: Path,
    work: Work,
    left: TimeLeft,
) -> Iterator[Say]:
    """Show the progress of a study's runs; yield a function that prints other lines.

    On a terminal, the progress is a live display below the printed lines. Otherwise a line per run is printed
    periodically.
    """
    from rich.console import Console
    from rich.live import Live

    console = Console(
        stderr=True,
        highlight=False,
        soft_wrap=True,
        markup=False,
    )
    display = ProgressDisplay(directory, work, left)

    def say(text: object) -> None:
        console.print(printable(str(text)))

    if console.is_terminal:
        with Live(
            get_renderable=display.text,
            console=console,
            refresh_per_second=1,
            transient=True,
        ):
            yield say
        return

    stop = threading.Event()

    def print_lines() -> None:
        pause = EVERY
        while not stop.wait(pause):
            lines = display.lines()
            for line in lines:
                say(line)
            # With more workers, each has its line less often: about a line per `EVERY` seconds is printed.
            pause = EVERY * max(1, len(lines))

    printer = threading.Thread(target=print_lines, daemon=True)
    printer.start()
    try:
        yield say
    finally:
        stop.set()
        printer.join()
