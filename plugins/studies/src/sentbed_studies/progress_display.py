"""Display of the runs that are at work while a study runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.errors import printable

from sentbed_studies.run_progress import RunLog
from sentbed_studies.shared_work_plan import Work
from sentbed_studies.time_left import TimeLeft, said
from sentbed_studies.write_study_directory import manifest_status

if TYPE_CHECKING:
    from rich.text import Text

Say: TypeAlias = Callable[[str], object]

EVERY = 15.0
"""Seconds between two lines on a run, where standard error is not a terminal."""


@attrs.define(eq=False)
class Watched:
    """The runs of a study that are at work."""

    directory: Path
    work: Work
    left: TimeLeft
    started: float = attrs.field(factory=time.time)
    _logs: dict[Path, RunLog] = attrs.field(factory=dict, init=False)
    _ended: set[Path] = attrs.field(factory=set, init=False)

    def lines(self) -> list[str]:
        """Return a line for each run that is at work: step, loss, time since its start, time left."""
        found = []
        titles = {
            **{prefix.directory: str(prefix) for prefix in self.work.prefixes},
            **{task.directory: str(task) for task in self.work.tasks},
        }
        for place, title in titles.items():
            if place in self._ended or (status := manifest_status(self.directory / place)) is None:
                continue
            if status != "running":
                # A run that was stopped, and waits to be resumed, is not at its end.
                self._ended |= {place} if status == "finished" else set()
                continue
            log = self._logs.setdefault(place, RunLog(self.directory / place))
            planned = self.left.of(place)
            seconds = planned[1] if planned is not None and planned[0] == planned[1] else None
            progress = log.progress(seconds)
            # A killed run's manifest says that it is running, until it is resumed.
            if progress is not None and (log.began or 0.0) >= self.started:
                found.append(f"{title}: {progress}")
        return found

    def text(self) -> Text:
        """Return the lines, and how long all runs will take, for a terminal."""
        from rich.text import Text

        lines = self.lines()
        if (time_left := said(self.left)) is not None:
            lines.append(f"all runs: {time_left} left")
        return Text(printable("\n".join(lines)), overflow="ellipsis", no_wrap=True)


@contextmanager
def watching(directory: Path, work: Work, left: TimeLeft) -> Iterator[Say]:
    """Show the runs that are at work; yield the function that prints further lines.

    On a terminal they are always in sight, below what is printed; elsewhere they are lines now and then.
    """
    from rich.console import Console
    from rich.live import Live

    def say(text: object) -> None:
        console.print(printable(str(text)))

    watched = Watched(directory, work, left)
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    if console.is_terminal:
        with Live(get_renderable=watched.text, console=console, refresh_per_second=1, transient=True):
            yield say
        return
    stop = threading.Event()

    def tell() -> None:
        pause = EVERY
        while not stop.wait(pause):
            lines = watched.lines()
            for line in lines:
                say(line)
            # Many workers do not mean as many more lines.
            pause = EVERY * max(1, len(lines))

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield say
    finally:
        stop.set()
        teller.join()
