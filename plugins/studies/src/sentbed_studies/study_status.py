"""Progress of a study and its runs, as `sentbed study status` prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from sentbed_report.formatting import count, duration
from sentbed_report.study.read_cell_run import missing_evaluations
from sentbed_report.study.study_data import CellRun, StudyData

from sentbed_studies.run_progress import RunLog, RunProgress


@attrs.frozen(eq=False)
class RunStatus:
    """Status of a run, and its progress while it runs."""

    run: CellRun
    is_fresh: bool
    """Whether this is a run of the chosen cell with a fresh seed."""
    progress: RunProgress | None
    """Progress now, or when the run was stopped or killed; None if it has not begun, has finished or failed."""
    directory: Path | None
    """Directory of the run; None if the run has not begun."""

    @property
    def missing(self) -> int:
        """Number of evaluations that were added to the recipe after the run had finished."""
        if self.run.status != "finished" or self.directory is None:
            return 0
        return len(missing_evaluations(self.directory, self.run.evaluations or ()))

    @property
    def is_at_work(self) -> bool:
        """Whether the run is running and its progress is known."""
        return self.run.status == "running" and self.progress is not None

    def __str__(self) -> str:
        run = self.run
        line = run.cell
        if run.prompt:
            line += f", prompt {run.prompt}"
        kind = "fresh seed" if self.is_fresh else "seed"
        line += f", {kind} {run.seed}: {run.status}"
        if run.status == "finished" and run.seconds is not None:
            line += f" in {duration(run.seconds)}"
        if self.is_at_work:
            line += f": {self.progress}"
        elif self.progress is not None:
            line += f" at {self.progress.place}"
        if run.error:
            line += f": {run.error}"
        missing = self.missing
        if missing:
            line += f", without {count(missing, 'evaluation')} of the recipe"
        return line

    def table(self) -> dict[str, Any]:
        """Return the status as a JSON object."""
        run = self.run
        progress = None
        if self.progress is not None and self.is_at_work:
            progress = attrs.asdict(self.progress)
        return {
            "cell": run.cell,
            "prompt": run.prompt,
            "seed": run.seed,
            "status": run.status,
            "directory": None if run.directory is None else str(run.directory),
            "seconds": run.seconds,
            "progress": progress,
            "error": run.error,
        }


@attrs.frozen(eq=False)
class StudyStatus:
    """Status of all runs of a study, and the time left."""

    data: StudyData
    runs: tuple[RunStatus, ...]
    """Runs of all cells, then runs of the chosen cell with fresh seeds."""
    mean_seconds: float | None
    """Mean seconds of the finished runs; None if no run has finished."""

    @property
    def total(self) -> int:
        """Number of all runs."""
        return len(self.runs)

    @property
    def counts(self) -> Counter[str]:
        """Status -> number of runs."""
        return Counter(status.run.status for status in self.runs)

    @property
    def finished(self) -> int:
        """Number of finished runs."""
        return self.counts["finished"]

    @property
    def at_work(self) -> list[RunProgress]:
        """Progress of the runs that are running."""
        progress = []
        for status in self.runs:
            if status.run.status == "running" and status.progress is not None:
                progress.append(status.progress)
        return progress

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all runs have finished, if as many are done at a time as now, or one; None if unknown."""
        if self.mean_seconds is None:
            return None
        seconds = self.mean_seconds * (self.total - self.finished)
        for progress in self.at_work:
            seconds -= progress.elapsed
        return max(0.0, seconds) / max(1, len(self.at_work))

    @property
    def time_left(self) -> str | None:
        """A sentence on `seconds_left`; None if they are unknown, or if all runs have finished."""
        if self.seconds_left is None or self.finished == self.total:
            return None

        at_a_time = "with one run at a time"
        if self.at_work:
            at_a_time = f"as now with {count(len(self.at_work), 'run')} at a time"
        seconds = duration(self.seconds_left)
        return f"left: about {seconds}, {at_a_time}, if they take as long as the finished ones"

    def lines(self) -> Iterator[str]:
        """Yield lines with the counts of runs, the status of each run, and the time left."""
        parts = [f"{number} {status}" for status, number in self.counts.most_common()]
        yield f"study {self.data.name}: {self.total} runs: {', '.join(parts)}"
        for run in self.runs:
            yield f"  {run}"

        if self.time_left is not None:
            yield self.time_left

    def table(self) -> dict[str, Any]:
        """Return the status as a JSON object."""
        data = self.data
        return {
            "name": data.name,
            "finished": self.finished,
            "total": self.total,
            "seconds_left": self.seconds_left,
            "runs": [status.table() for status in self.runs],
        }


def status_of(data: StudyData) -> StudyStatus:
    """Return the status of a study, with the progress of its runs from their logs."""
    runs: list[CellRun] = []
    fresh: list[CellRun] = []
    for cell in data.cells:
        runs += cell.runs
        fresh += cell.confirmation
    runs += fresh

    times = []
    for run in runs:
        if run.status == "finished" and run.seconds is not None:
            times.append(run.seconds)
    mean_seconds = sum(times) / len(times) if times else None

    statuses = []
    for run in runs:
        progress = None
        directory = None
        if run.directory is not None and data.directory is not None:
            directory = data.directory / run.directory
            if run.status in ("running", "interrupted"):
                expected_seconds = mean_seconds if run.status == "running" else None
                progress = RunLog(directory).progress(expected_seconds)
        statuses.append(RunStatus(run, run in fresh, progress, directory))
    return StudyStatus(data, tuple(statuses), mean_seconds)
