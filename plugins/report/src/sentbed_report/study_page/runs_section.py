"""Section on a study's runs: their status, errors and warnings, and how the cells' recipes differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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


def warnings_of_runs(data: StudyData) -> list[tuple[CellRun, list[str]]]:
    """Return each finished run, also those with fresh seeds, with its distinct warnings."""
    warned = []
    for cell in data.cells:
        for run in (*cell.runs, *cell.confirmation):
            if run.status == "finished":
                warnings = dict.fromkeys(run.record.get("warnings", ()))
                warned.append((run, list(warnings)))
    return warned


def runs_section(data: StudyData) -> Section:
    """Return the section on the runs: states, links, errors, warnings, and how the cells' recipes differ."""
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

    tables = [Table("", headers, columns, tuple(rows)), *_remarks(data)]
    if differences:
        reference = "baseline" if data.baseline else "first cell"
        title = f"How recipes differ from that of the {reference}"
        tables.append(table_of(title, ["cell"], ["differences"], differences))
    failed = status_counts(data)["failed"] > 0
    texts = _errors(data)
    return Section(
        "Runs", status_text(data), tables=tables, texts=texts, is_open=failed
    )


def _errors(data: StudyData) -> list[Text]:
    """Return each error message once, under the names of the runs that failed with it."""
    runs_of_errors: dict[str, list[str]] = {}
    for run in data.runs:
        if run.status == "failed":
            runs_of_errors.setdefault(run.error or "no message", []).append(str(run))
    return [Text(error, title=_named(names)) for error, names in runs_of_errors.items()]


def _named(runs: Sequence[str]) -> str:
    if len(runs) == 1:
        return runs[0]
    return f"{count(len(runs), 'run')}: {first_names(runs)}"


def _remarks(data: StudyData) -> Iterator[Table]:
    """Yield a table of the runs' warnings, and one of versions that are not the same in all runs."""
    warned: dict[str, list[CellRun]] = {}
    for run, warnings in warnings_of_runs(data):
        for warning in warnings:
            warned.setdefault(warning, []).append(run)
    if warned:
        rows = [(_runs_and_cells(runs), warning) for warning, runs in warned.items()]
        yield table_of("Warnings", ["runs"], ["warning"], rows)

    versions: dict[str, dict[str, list[CellRun]]] = {}
    for run in data.finished_runs:
        for name, version in run.manifest.get("code", {}).items():
            versions.setdefault(name, {}).setdefault(version, []).append(run)
    lines = []
    for name, runs_of_version in versions.items():
        if len(runs_of_version) > 1:
            for version, runs in runs_of_version.items():
                lines.append((name, version, _runs_and_cells(runs)))
    if lines:
        title = "Versions that are not the same in all runs, which may decide scores"
        yield table_of(title, ["distribution", "version"], ["runs"], lines)


def _runs_and_cells(runs: Sequence[CellRun]) -> str:
    """Return the number of runs, and the names of the first few cells to which the runs belong."""
    cells = list(dict.fromkeys(run.cell for run in runs))
    return f"{count(len(runs), 'run')}: {first_names(cells)}"


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
