"""Content that the page and the Markdown of a study's report share: sentences, facts, failures, links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args
from urllib.parse import quote

from sentbed_report.formatting import count, duration
from sentbed_report.recipe_facts import Fact, axis_paths, recipe_facts
from sentbed_report.study.study_cost import study_cost
from sentbed_report.study.study_data import CellInfo, CellRun, CellStatus, StudyData


def status_line(data: StudyData) -> str:
    """Return a sentence on the number of runs in each state."""
    found = Counter(run.status for cell in data.cells for run in cell.runs)
    parts = [f"{data.finished:,} of {count(data.total, 'run')} finished"]
    parts += [f"{found[s]:,} {s}" for s in get_args(CellStatus) if s != "finished" and found[s]]
    return ", ".join(parts) + "."


def status_class(data: StudyData) -> str:
    """Return the state of the whole, as the run report's page colours it."""
    if any(run.status == "failed" for run in _runs(data)):
        return "failed"
    return "finished" if data.finished == data.total else "interrupted"


def summary_line(data: StudyData) -> str:
    """Return a one-line summary of the study."""
    parts = [count(len(data.cells), "cell")]
    if data.axes:
        parts.append(count(len(data.axes), "axis", "axes"))
    parts.append(count(len(data.seeds), "seed"))
    seconds = [run.seconds for run in _runs(data) if run.seconds is not None]
    if seconds:
        cost = study_cost(data)
        twice = 0.0 if cost is None else (cost.alone.seconds or 0.0) - (cost.taken.seconds or 0.0)
        parts.append(f"{duration(sum(seconds) - twice)} of runs")
    return ", ".join(parts) + "."


def facts(data: StudyData) -> tuple[Fact, ...]:
    """Return model, pooler and loss of the study's recipe, without what its cells differ in."""
    varied = {path for cell in data.cells for line in cell.differences for path in [line.partition(": ")[0]]}
    # An axis is told with its labels, also where one label alone has cells; seeds are those of the study.
    return recipe_facts(data.recipe, {*varied, *axis_paths(data.recipe), "run.seed"})


def failures(data: StudyData) -> tuple[CellRun, ...]:
    """Return the runs that failed."""
    return tuple(run for run in _runs(data) if run.status == "failed")


def published_notes(data: StudyData) -> tuple[str, ...]:
    """Return what is known of each published table, a sentence or two each."""
    notes = []
    for title, table in data.expected.items():
        hours = "" if table.hours is None else f"about {table.hours:g} h a cell"
        made = " on ".join(part for part in (hours, table.hardware) if part)
        if made or table.note:
            notes.append(f"{title}: " + " ".join(filter(None, (made and f"{made}.", table.note))))
        for cell, reason in table.contradicted.items():
            notes.append(f"{title}, {cell}: not to be met, and not counted, since {reason}.")
    return tuple(notes)


def link(run: CellRun) -> str:
    """Return the address of a run's own report, relative to that of the study; empty where it has none."""
    if run.directory is None or not (run.record or run.status == "finished"):
        return ""
    return quote((run.directory / "report.html").as_posix())


def run_seeds(data: StudyData) -> tuple[int, ...]:
    """Return the seeds of all runs: those of the study, then those of runs that were started alone."""
    return tuple(dict.fromkeys([*data.seeds, *(run.seed for run in _runs(data))]))


def by_seed(cell: CellInfo, seeds: Sequence[int]) -> list[CellRun | None]:
    """Return the run of each seed; None where the cell has none."""
    found = {run.seed: run for run in cell.runs}
    return [found.get(seed) for seed in seeds]


def _runs(data: StudyData) -> list[CellRun]:
    return [run for cell in data.cells for run in cell.runs]
