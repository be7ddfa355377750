"""Progress of a study: what its runs are doing, and how long those that have not finished will take."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentbed.helpers import read_json
from sentbed.tools import MANIFEST
from sentbed_report.formatting import duration
from sentbed_report.study.read_cell_run import UNREADABLE
from sentbed_report.study.read_study_directory import status_of
from sentbed_report.study.study_data import CellRun, StudyData

if TYPE_CHECKING:
    from rich.text import Text

LOG = "log.jsonl"
"""Log of a run: one JSON object per event."""
END = 2**16
"""Number of bytes at the end of a log that are read."""


def seconds_left(
    took: Sequence[float],
    unfinished: int,
    at_a_time: int,
) -> float | None:
    """Return the seconds until a number of unfinished runs have finished.

    They are assumed to take as long as the finished runs, whose seconds are `took`, do on average. Return None
    if no run has finished.
    """
    if not took:
        return None
    if not unfinished:
        return 0.0
    return sum(took) / len(took) * unfinished / min(at_a_time, unfinished)


def activity(run: Path) -> str:
    """Return what a run is doing by the end of its log, such as `stage nli: step 3 of 8, loss 0.2000`.

    Return an empty string if the log does not say so.
    """
    try:
        with (run / LOG).open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - END))
            lines = log.read().splitlines()
    except OSError:
        return ""

    for line in reversed(lines):
        try:
            event = json.loads(line)
        except ValueError:
            # A line that is just being written.
            continue
        text = _in_words(event)
        if text:
            return text
    return ""


def _in_words(event: Mapping[str, Any]) -> str:
    """Return what a run does that has just logged an event; empty if the event does not say so."""
    match event:
        case {"event": "step_finished", "stage": stage, "step": step, "loss": loss}:
            text = f"stage {stage}: step {step} of {event.get('total_steps')}"
            if loss is not None:
                text += f", loss {loss:.4f}"
            return text
        case {"event": "stage_started", "stage": stage}:
            return f"stage {stage}"
        case {"event": "evaluation_started", "encoder": encoder, "evaluator": name}:
            return f"evaluating {encoder} with {name}"
    return ""


@contextmanager
def watching(directory: Path) -> Iterator[Callable[[object], None]]:
    """Yield a function that prints lines; on a terminal, show below them what the running runs are doing.

    `directory` is that of the study. Runs of other processes that work on it are shown, too.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(
        stderr=True,
        highlight=False,
        soft_wrap=True,
        markup=False,
    )

    def say(text: object) -> None:
        console.print(str(text))

    def running() -> Text:
        text = "\n".join(running_lines(directory))
        return Text(text, overflow="ellipsis", no_wrap=True)

    if not console.is_terminal:
        yield say
        return

    with Live(
        get_renderable=running,
        console=console,
        refresh_per_second=1,
        transient=True,
    ):
        yield say


def running_lines(directory: Path) -> Iterator[str]:
    """Yield the name of each run of a study that is running, and what it is doing."""
    for manifest in sorted(directory.glob(f"*/*/{MANIFEST}")):
        run = manifest.parent
        if status_of(directory, run.relative_to(directory)) == "running":
            yield f"{_name_in(manifest)}: {activity(run)}"


def _name_in(manifest: Path) -> str:
    """Return the name of a run from its manifest, or that of its directory if the manifest is being replaced."""
    try:
        return str(read_json(manifest)["name"])
    except UNREADABLE:
        return manifest.parent.name


def status_lines(data: StudyData) -> Iterator[str]:
    """Yield lines with the counts of runs, the status of each run, and the time left."""
    runs = data.runs_and_fresh_runs
    counts = Counter(run.status for run in runs)
    parts = [f"{number} {status}" for status, number in counts.most_common()]
    yield f"study {data.name}: {len(runs)} runs: {', '.join(parts)}"

    for run in runs:
        line = f"  {run}: {run.status}"
        if run.status == "finished" and run.seconds is not None:
            line += f" in {duration(run.seconds)}"
        for detail in (_activity_of(run, data), run.error):
            if detail:
                line += f": {detail}"
        yield line

    seconds = _seconds_left_of(runs)
    if seconds:
        yield f"left: about {duration(seconds)}, if the others take as long as the finished runs"


def _seconds_left_of(runs: Sequence[CellRun]) -> float | None:
    """Return the seconds until all runs have finished, with as many at a time as now, or with one."""
    took = []
    for run in runs:
        if run.status == "finished" and run.seconds is not None:
            took.append(run.seconds)
    counts = Counter(run.status for run in runs)
    unfinished = len(runs) - counts["finished"]
    return seconds_left(took, unfinished, max(1, counts["running"]))


def _activity_of(run: CellRun, data: StudyData) -> str:
    """Return what a running run is doing, or where an interrupted one was stopped; empty for others."""
    if run.status not in ("running", "interrupted"):
        return ""
    if run.directory is None or data.directory is None:
        return ""
    return activity(data.directory / run.directory)
