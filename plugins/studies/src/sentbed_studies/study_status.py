"""How far a study is, as `sentbed study status` prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs
from sentbed.tools import plain
from sentbed_report.formatting import count, duration
from sentbed_report.study.read_cell_run import missing_evaluations
from sentbed_report.study.study_data import CellRun, StudyData
from sentbed_report.study_page.decisions_section import decided

from sentbed_studies.run_progress import RunLog, RunProgress


def status_lines(data: StudyData) -> Iterator[str]:
    """Yield how far a study is: counts, decisions, each run, and the time left."""
    runs, unchosen = _runs(data), _unchosen(data)
    fresh = {run for cell in data.cells for run in cell.confirmation}
    counts = Counter(run.status for run in runs)
    parts = [f"{number} {status}" for status, number in counts.most_common()]
    parts += [f"{unchosen} of cells that are not chosen yet"] if unchosen else []
    yield f"study {data.name}: {len(runs) + unchosen} runs: {', '.join(parts)}"
    if data.sampled is not None:
        yield f"  {data.sampled}"
    if sentences := decided(data):
        yield f"  {' '.join(sentences)}"
    working = _progress(data)
    for run in runs:
        took = f" in {duration(run.seconds)}" if run.status == "finished" and run.seconds is not None else ""
        why = f": {run.error}" if run.error else ""
        now = f": {working[run]}" if run in working else _stopped_at(data, run)
        kind = "fresh seed" if run in fresh else "seed"
        yield f"  {run.cell}, {kind} {run.seed}: {run.status}{took}{now}{why}{_lacking(data, run)}"
    times = [run.seconds for run in runs if run.status == "finished" and run.seconds is not None]
    left = len(runs) + unchosen - counts["finished"]
    if times and left:
        done = sum(progress.elapsed for progress in working.values())
        seconds = max(0.0, sum(times) / len(times) * left - done) / max(1, len(working))
        many = f"as now with {count(len(working), 'run')} at a time" if working else "with one run at a time"
        yield f"left: about {duration(seconds)}, {many}, if they take as long as the finished ones"


def _runs(data: StudyData) -> list[CellRun]:
    """Return the runs of all cells, and last those of the chosen cell with fresh seeds."""
    runs = [run for cell in data.cells for run in cell.runs]
    return runs + [run for cell in data.cells for run in cell.confirmation]


def _unchosen(data: StudyData) -> int:
    """Return the number of runs of cells that a sampler has still to choose."""
    return 0 if data.sampled is None else (data.sampled.cells - len(data.sampled.names)) * len(data.seeds)


def _stopped_at(data: StudyData, run: CellRun) -> str:
    """Return where a run was when it was stopped or killed, by its log; empty for another run."""
    if run.status != "interrupted" or run.directory is None or data.directory is None:
        return ""
    progress = RunLog(data.directory / run.directory).progress()
    return "" if progress is None else f" at {progress.place}"


def _lacking(data: StudyData, run: CellRun) -> str:
    """Return how many evaluations a finished run lacks that were added to the recipe since."""
    if run.status != "finished" or run.directory is None or data.directory is None:
        return ""
    missing = missing_evaluations(data.directory / run.directory, run.evaluations or ())
    return f", without {count(len(missing), 'evaluation')} of the recipe" if missing else ""


def _progress(data: StudyData) -> dict[CellRun, RunProgress]:
    """Return how far each run is that is at work."""
    runs = _runs(data)
    times = [run.seconds for run in runs if run.status == "finished" and run.seconds is not None]
    mean = sum(times) / len(times) if times else None
    found = {}
    for run in runs:
        if run.status == "running" and run.directory is not None and data.directory is not None:
            progress = RunLog(data.directory / run.directory).progress(mean)
            if progress is not None:
                found[run] = progress
    return found


def status_table(data: StudyData) -> dict[str, Any]:
    """Return how far a study is, for JSON."""
    working, runs = _progress(data), _runs(data)
    return {
        "name": data.name,
        "finished": sum(run.status == "finished" for run in runs),
        "total": len(runs) + _unchosen(data),
        "decisions": None if data.decisions is None else plain(attrs.asdict(data.decisions)),
        "sampled": None if data.sampled is None else attrs.asdict(data.sampled),
        "runs": [
            {
                "cell": run.cell,
                "seed": run.seed,
                "status": run.status,
                "directory": None if run.directory is None else str(run.directory),
                "seconds": run.seconds,
                "progress": attrs.asdict(working[run]) if run in working else None,
                "error": run.error,
            }
            for run in runs
        ],
    }
