"""Section on a study's runs: their status, errors and warnings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import get_args
from urllib.parse import quote

from sentbed_report.formatting import count, duration, first_names
from sentbed_report.page.sections import Section, Text
from sentbed_report.study.study_data import CellRun, CellStatus, StudyData
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Header, Link, Row, Table


def status_counts(data: StudyData) -> Counter[CellStatus]:
    """Return the number of runs in each state, those with fresh seeds too."""
    return Counter(run.status for run in data.runs_and_fresh_runs)


def status_text(data: StudyData) -> str:
    """Return the number of runs in each state as text, without a full stop."""
    counts = status_counts(data)
    parts = [f"{counts['finished']:,} of {count(counts.total(), 'run')} finished"]
    for status in get_args(CellStatus):
        if status != "finished" and counts[status]:
            parts.append(f"{counts[status]:,} {status}")
    return ", ".join(parts)


def status_class(data: StudyData) -> str:
    """Return the CSS class of the study's status."""
    counts = status_counts(data)
    if counts["failed"]:
        return "failed"
    if counts["finished"] < counts.total():
        return "interrupted"
    return "finished"


def summary_line(data: StudyData) -> str:
    """Return a line with the size of the study and the total time of its runs (`total_seconds`)."""
    parts = [count(len(data.cells), "cell")]
    if data.axes:
        parts.append(count(len(data.axes), "axis", "axes"))
    if data.prompts:
        parts.append(count(len(data.prompts), "prompt"))
    parts.append(count(len(data.seeds), "seed"))
    total = total_seconds(data)
    if total:
        parts.append(f"{duration(total)} of runs")
    return ", ".join(parts) + "."


def total_seconds(data: StudyData) -> float:
    """Return the duration of all runs that have ended, with fresh seeds too; shared stages count once.

    A run may be that of several cells, if their weights are the same. It counts once, too.
    """
    parts: dict[str, float] = {}
    for run in data.runs_and_fresh_runs:
        if run.seconds is None:
            continue
        # The name of the directory of shared stages has their key, so equal names mean the same stages.
        shared = run.record.get("manifest", {}).get("shared_seconds", {})
        parts.update(shared)
        parts[str(run.directory or run)] = run.seconds - sum(shared.values())
    return sum(parts.values())


def warnings_of_runs(data: StudyData) -> list[tuple[CellRun, list[str]]]:
    """Return each finished run, also those with fresh seeds, with its distinct warnings."""
    warned = []
    for run in data.runs_and_fresh_runs:
        if run.status == "finished":
            warnings = run.record.get("warnings", ())
            warned.append((run, list(dict.fromkeys(warnings))))
    return warned


def runs_section(data: StudyData) -> Section:
    """Return the section on the runs: states with links, errors, warnings, and cells that were left out."""
    errors = []
    for run in data.runs_and_fresh_runs:
        if run.status == "failed":
            errors.append((run.error or "no message", run))
    warnings = []
    for run, of_run in warnings_of_runs(data):
        for warning in of_run:
            warnings.append((warning, run))
    notes = []
    for name, reasons in data.excluded:
        notes.append(f"Left out: {name}, since {' '.join(reasons)}")
    return Section(
        "Runs",
        status_text(data),
        tables=[_states_of_runs(data)],
        notes=notes,
        texts=[*_texts(errors), *_texts(warnings)],
        is_open=bool(errors),
    )


def _texts(messages: Iterable[tuple[str, CellRun]]) -> list[Text]:
    """Return each message once, under the names of its runs."""
    runs_of_messages: defaultdict[str, list[str]] = defaultdict(list)
    for message, run in messages:
        runs_of_messages[message].append(str(run))
    texts = []
    for message, names in runs_of_messages.items():
        title = f"{count(len(names), 'run')}: {first_names(names)}"
        texts.append(Text(message, title=title))
    return texts


def _states_of_runs(data: StudyData) -> Table:
    """Return a table of the runs' states: a row for each cell and prompt, a column for each seed."""
    seeds = dict.fromkeys(data.seeds)
    seeds |= dict.fromkeys(run.seed for run in data.runs)
    rows = []
    for cell in data.cells:
        states: defaultdict[str, dict[int, Link]] = defaultdict(dict)
        for run in cell.runs:
            states[run.prompt][run.seed] = _state(run)
        for prompt, of_seeds in states.items():
            cells = tuple(map(of_seeds.get, seeds))
            rows.append(Row((cell.name, prompt), cells, cell=cell.name))

    headers = (Header("cell"), Header("prompt", shown=bool(data.prompts)))
    columns = tuple(Column(f"seed {seed}") for seed in seeds)
    return Table("", headers, columns, tuple(rows))


def _state(run: CellRun) -> Link:
    """Return the state of a run with its duration, linked to its report if it has one."""
    state: str = run.status
    if run.seconds is not None:
        state += f", {duration(run.seconds)}"
    address = ""
    if run.directory is not None and (run.record or run.status == "finished"):
        address = quote((run.directory / "report.html").as_posix())
    return Link(state, address, f"state-{run.status}")
