"""Sections on a study's cells and runs: their status, failed runs, and how the cells' recipes differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import get_args
from urllib.parse import quote

from sentbed_report.formatting import count, duration, first_names
from sentbed_report.page.sections import Section, Text, table_of
from sentbed_report.recipe_facts import Fact, recipe_facts
from sentbed_report.study.study_cost import study_cost
from sentbed_report.study.study_data import CellInfo, CellRun, CellStatus, StudyData
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Header, Link, Row, Table


def status_counts(data: StudyData) -> Counter[CellStatus]:
    """Return the number of runs in each state."""
    return Counter(run.status for run in data.runs)


def status_text(data: StudyData) -> str:
    """Return the number of runs in each state as text, without a full stop."""
    counts = status_counts(data)
    parts = [f"{data.finished:,} of {count(data.total, 'run')} finished"]
    for status in get_args(CellStatus):
        if status != "finished" and counts[status]:
            parts.append(f"{counts[status]:,} {status}")
    return ", ".join(parts)


def status_class(data: StudyData) -> str:
    """Return the CSS class of the study's status."""
    if status_counts(data)["failed"]:
        return "failed"
    if data.finished < data.total:
        return "interrupted"
    return "finished"


def summary_line(data: StudyData) -> str:
    """Return a line with the size of the study and the total time of its runs."""
    parts = [count(len(data.cells), "cell")]
    if data.axes:
        parts.append(count(len(data.axes), "axis", "axes"))
    if data.prompts:
        parts.append(count(len(data.prompts), "prompt"))
    parts.append(count(len(data.seeds), "seed"))
    cost = study_cost(data)
    if cost is not None and cost.seconds is not None:
        parts.append(f"{duration(cost.seconds)} of runs")
    return ", ".join(parts) + "."


def facts(data: StudyData) -> tuple[Fact, ...]:
    """Return the facts at the top of the page: common settings, axes, baseline, seeds and excluded cells."""
    # The values of these keys differ between cells, so they are no common settings; they are listed below.
    varied = {"run.seed"}
    for cell in data.cells:
        for difference in cell.differences:
            varied.add(difference.partition(": ")[0])
    for axis in data.axes:
        varied.update(axis.paths)

    lines = list(recipe_facts(data.recipe, varied))
    for axis in data.axes:
        lines.append((axis.name, " · ".join(axis.labels)))
    if data.baseline:
        lines.append(("baseline", data.baseline))
    lines.append(("seeds", ", ".join(map(str, data.seeds)) or "none"))
    for name, reasons in data.excluded:
        lines.append(("left out", f"{name}: {' '.join(reasons)}"))
    return tuple(lines)


def failures_section(data: StudyData) -> Section | None:
    """Return the section on failed runs, with each error message once and its runs; None if no run has failed."""
    runs_of_errors: dict[str, list[str]] = {}
    rows = []
    for run in data.runs:
        if run.status == "failed":
            runs_of_errors.setdefault(run.error or "no message", []).append(str(run))
            link = _linked(run, str(run).removeprefix(f"{run.cell}, "))
            rows.append((run.cell, link))
    if not rows:
        return None

    texts = []
    for error, names in runs_of_errors.items():
        texts.append(Text(error, title=_named(names)))
    table = table_of("", ["cell"], ["run"], rows)
    number = count(len(rows), "run")
    return Section(
        "Failed",
        number,
        tables=[table],
        texts=texts,
        is_open=True,
    )


def _named(runs: Sequence[str]) -> str:
    if len(runs) == 1:
        return runs[0]
    return f"{count(len(runs), 'run')}: {first_names(runs)}"


def runs_section(data: StudyData) -> Section:
    """Return the section with the state of each run, a link to its report, and how the cells' recipes differ."""
    seeds = dict.fromkeys(data.seeds)
    for run in data.runs:
        seeds[run.seed] = None
    columns = tuple(Column(f"seed {seed}") for seed in seeds)
    headers = (Header("cell"), Header("prompt", shown=bool(data.prompts)))
    rows = []
    differences = []
    for cell in data.cells:
        if cell.differences:
            differences.append((cell.name, "; ".join(cell.differences)))
        tags: tuple[str, ...] = ()
        if cell.name == data.baseline and not data.prompts:
            tags = ("baseline",)
        for prompt in data.prompts or ("",):
            states = tuple(_states(cell, prompt, seeds))
            rows.append(Row((cell.name, prompt), states, tags, cell.name))

    tables = [Table("", headers, columns, tuple(rows))]
    if differences:
        reference = "baseline" if data.baseline else "first cell"
        title = f"How recipes differ from that of the {reference}"
        tables.append(table_of(title, ["cell"], ["differences"], differences))
    return Section("Cells and runs", status_text(data), tables=tables)


def _states(
    cell: CellInfo,
    prompt: str,
    seeds: Iterable[int],
) -> list[Link | None]:
    """Return the state of a cell's run under each seed, linked to its report; None for a seed without a run."""
    states: dict[int, Link | None] = dict.fromkeys(seeds)
    for run in cell.runs:
        if run.prompt == prompt:
            state: str = run.status
            if run.seconds is not None:
                state += f", {duration(run.seconds)}"
            states[run.seed] = _linked(run, state)
    return list(states.values())


def _linked(run: CellRun, text: str) -> Link:
    address = ""
    if run.directory is not None and (run.record or run.status == "finished"):
        address = quote((run.directory / "report.html").as_posix())
    return Link(text, address, f"state-{run.status}")
