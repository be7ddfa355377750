"""Time that the runs of a study will still take, by the mean time of the finished ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
from sentbed.helpers import read_json
from sentbed_report.formatting import duration
from sentbed_report.run_cost import recorded_cost
from sentbed_report.study.read_cell_run import REPORT, UNREADABLE

from sentbed_studies.added_evaluations import RunState
from sentbed_studies.confirmation import Confirmation


@attrs.define(eq=False)
class TimeLeft:
    """Runs of a study that have not ended, and the seconds of the finished ones."""

    unfinished: set[Path] = attrs.field(factory=set)
    """Directories of the runs that have not ended."""
    fresh: int = 0
    """Number of runs with fresh seeds (see `Confirmation`) whose cell is not known yet."""
    workers: int = 1
    """Number of cells that are run at a time."""
    took: dict[Path, float] = attrs.field(factory=dict)
    """Run directory -> seconds of the finished run."""

    def ended(self, run: Path, seconds: float | None = None) -> None:
        """Record that a run has ended; `seconds` is the time that it took if it was run now and has finished."""
        self.unfinished.discard(run)
        if seconds is not None:
            self.took[run] = seconds

    def chosen(self, runs: Sequence[Path]) -> None:
        """Record the directories of the runs with fresh seeds, when the chosen cell is known."""
        self.fresh = 0
        self.unfinished.update(runs)

    def of_run(self) -> float | None:
        """Return the expected seconds of a run; None before one has finished."""
        # Of a copy, since runs end while another thread shows the time left.
        seconds = list(self.took.values())
        if not seconds:
            return None
        return sum(seconds) / len(seconds)

    def in_words(self) -> str | None:
        """Return the time left in words; None before a run has finished, or if nothing is left."""
        seconds = self.of_run()
        runs = len(self.unfinished) + self.fresh
        if seconds is None or not runs:
            return None
        return duration(seconds * runs / min(self.workers, runs))


def time_left(
    states: Sequence[RunState],
    directory: Path,
    confirmation: Confirmation | None,
) -> TimeLeft:
    """Return the time left of a study whose runs in `directory` have these states.

    `confirmation` has the runs with fresh seeds; None if there are none.
    """
    left = TimeLeft()
    for state in states:
        run = state.task.directory
        if not state.is_done:
            left.unfinished.add(run)
            continue
        seconds = _recorded_seconds(directory / run)
        if seconds is not None:
            left.took[run] = seconds

    if confirmation is not None:
        left.fresh = confirmation.number_left
        if confirmation.work is not None:
            left.chosen([task.directory for task in confirmation.unfinished])
    return left


def _recorded_seconds(run: Path) -> float | None:
    """Return the seconds of a finished run without its shared stages; None if its record cannot be read."""
    try:
        record = read_json(run / REPORT)
        cost = recorded_cost(record)
        if cost is not None and cost.own.seconds is not None:
            return float(cost.own.seconds)
        return float(record["seconds"])
    except UNREADABLE:
        return None
