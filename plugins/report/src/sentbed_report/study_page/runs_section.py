"""Section on a study's runs: their status, errors and warnings, and how the cells' recipes differ."""

from __future__ import annotations

from collections import Counter, defaultdict
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
            path, _, _ = difference.partition(": ")
            varied.add(path)
    for axis in data.axes:
        varied.update(axis.paths)

    lines = list(recipe_facts(data.recipe, varied))
    for axis in data.axes:
        labels = " · ".join(axis.labels)
        lines.append((axis.name, labels))
    if data.baseline:
        lines.append(("baseline", data.baseline))
    seeds = ", ".join(map(str, data.seeds))
    lines.append(("seeds", seeds or "none"))
    for name, reasons in data.excluded:
        text = " ".join(reasons)
        lines.append(("left out", f"{name}: {text}"))
    return tuple(lines)


def warnings_of_runs(data: StudyData) -> list[tuple[CellRun, list[str]]]:
    """Return each finished run, also those with fresh seeds, with its distinct warnings."""
    runs: list[CellRun] = []
    for cell in data.cells:
        runs += cell.runs
        runs += cell.confirmation

    warned = []
    for run in runs:
        if run.status != "finished":
            continue
        warnings = run.record.get("warnings", ())
        warned.append((run, list(dict.fromkeys(warnings))))
    return warned


def runs_section(data: StudyData) -> Section:
    """Return the section on the runs: states, links, errors, warnings, and how the cells' recipes differ."""
    tables = [_states_of_runs(data)]
    for table in (_warnings(data), _versions(data), _differences(data)):
        if table.rows:
            tables.append(table)
    return Section(
        "Runs",
        status_text(data),
        tables=tables,
        texts=_errors(data),
        is_open=status_counts(data)["failed"] > 0,
    )


def _states_of_runs(data: StudyData) -> Table:
    """Return a table of the runs' states: a row for each cell and prompt, a column for each seed."""
    seeds = dict.fromkeys(data.seeds)
    for run in data.runs:
        seeds[run.seed] = None
    columns = [Column(f"seed {seed}") for seed in seeds]

    rows = []
    for cell in data.cells:
        tags: tuple[str, ...] = ()
        if cell.name == data.baseline and not data.prompts:
            tags = ("baseline",)
        for prompt in data.prompts or ("",):
            states = _states(cell, prompt, seeds)
            rows.append(Row((cell.name, prompt), tuple(states), tags, cell.name))

    has_prompts = bool(data.prompts)
    headers = (Header("cell"), Header("prompt", shown=has_prompts))
    return Table("", headers, tuple(columns), tuple(rows))


def _differences(data: StudyData) -> Table:
    """Return a table of what differs between each cell's recipe and that of the baseline or first cell."""
    rows = []
    for cell in data.cells:
        if cell.differences:
            differences = "; ".join(cell.differences)
            rows.append((cell.name, differences))

    reference = "first cell"
    if data.baseline:
        reference = "baseline"
    title = f"How recipes differ from that of the {reference}"
    return table_of(title, ["cell"], ["differences"], rows)


def _errors(data: StudyData) -> list[Text]:
    """Return each error message once, under the names of the runs that failed with it."""
    runs_of_errors: defaultdict[str, list[str]] = defaultdict(list)
    for run in data.runs:
        if run.status == "failed":
            error = run.error or "no message"
            runs_of_errors[error].append(str(run))

    texts = []
    for error, names in runs_of_errors.items():
        title = names[0]
        if len(names) > 1:
            title = f"{count(len(names), 'run')}: {first_names(names)}"
        texts.append(Text(error, title=title))
    return texts


def _warnings(data: StudyData) -> Table:
    """Return a table of the runs' warnings, each once, with the runs that have it."""
    runs_of_warnings: defaultdict[str, list[CellRun]] = defaultdict(list)
    for run, warnings in warnings_of_runs(data):
        for warning in warnings:
            runs_of_warnings[warning].append(run)

    rows = []
    for warning, runs in runs_of_warnings.items():
        rows.append((_runs_and_cells(runs), warning))
    return table_of("Warnings", ["runs"], ["warning"], rows)


def _versions(data: StudyData) -> Table:
    """Return a table of the distributions whose version is not the same in all runs."""
    runs_of_versions: dict[str, defaultdict[str, list[CellRun]]] = {}
    for run in data.finished_runs:
        code = run.manifest.get("code", {})
        for name, version in code.items():
            versions = runs_of_versions.setdefault(name, defaultdict(list))
            versions[version].append(run)

    rows = []
    for name, versions in runs_of_versions.items():
        if len(versions) == 1:
            continue
        for version, runs in versions.items():
            rows.append((name, version, _runs_and_cells(runs)))
    title = "Versions that are not the same in all runs, which may decide scores"
    return table_of(title, ["distribution", "version"], ["runs"], rows)


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
            states[run.seed] = _state(run)
    return list(states.values())


def _state(run: CellRun) -> Link:
    """Return the state of a run with its duration, linked to its report if it has one."""
    state: str = run.status
    if run.seconds is not None:
        state += f", {duration(run.seconds)}"

    address = ""
    has_report = run.record or run.status == "finished"
    if run.directory is not None and has_report:
        report = run.directory / "report.html"
        address = quote(report.as_posix())
    return Link(state, address, f"state-{run.status}")
