"""Export of a study's results to files: `tables/` for papers, `results.json` for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.helpers import read_json, write_atomic
from sentbed.tools import plain

from sentbed_report.statistics.item_components import degenerate_reason
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.prompt_effects import RowUnderPrompts, rows_under_prompts
from sentbed_report.study.rank_groups import GroupedRow, RankGroups
from sentbed_report.study.read_cell_run import UNREADABLE
from sentbed_report.study.selection import Selection, select
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.comma_separated import csv_text
from sentbed_report.tables.json_records import record_of
from sentbed_report.tables.latex import reduced, to_latex
from sentbed_report.tables.markdown import to_markdown
from sentbed_report.unique_names import LONGEST, unique_name

if TYPE_CHECKING:
    import pandas

SCHEMA = 2
"""Version of the schema of `results.json`; it is increased if a key changes its meaning or is removed."""

DIRECTORY = "tables"
RESULTS = "results.json"
SCORES = "scores.csv"
"""File in `tables/` with every score under every seed, one per line."""
FORMATS = {"md": to_markdown, "tex": to_latex}
"""Suffix of a table's file -> function that renders the table."""


def write_exports(
    directory: Path,
    data: StudyData,
    summaries: Sequence[Summary] | None = None,
    selection: Selection | None = None,
) -> None:
    """Write `results.json`, and each table and all scores into `tables/`.

    `summaries` and `selection` are computed from `data` by default. Files of tables that only an earlier
    `results.json` names are deleted; other files in `tables/` are kept.

    Raises:
        RunError: if the disk is full.
    """
    if summaries is None:
        summaries = summarise(data)
    frame = score_frame(data, summaries)
    scores = csv_text([frame.columns, *frame.itertuples(index=False, name=None)])
    write_atomic(directory / DIRECTORY / SCORES, scores)
    write_tables(directory, summaries)
    # This comes last, since `write_tables` reads the names of earlier tables in this file.
    write_atomic(directory / RESULTS, to_json(data, summaries, selection))


def write_tables(directory: Path, summaries: Sequence[Summary]) -> None:
    """Write each table as `tables/NAME.md` and `.tex` into the directory of a study or run.

    Files of tables that only an earlier `results.json` names are deleted.

    Raises:
        RunError: if the disk is full.
    """
    earlier = _names_in_results(directory)
    names = table_names(summaries)
    for summary, name in zip(summaries, names, strict=True):
        table = attrs.evolve(summary.table, name=name)
        for suffix, render in FORMATS.items():
            write_atomic(directory / DIRECTORY / f"{name}.{suffix}", render(table))

    for name in earlier:
        if name in names:
            continue
        for suffix in FORMATS:
            # A damaged file could have a name that no file can have.
            with suppress(OSError, ValueError):
                (directory / DIRECTORY / f"{name}.{suffix}").unlink()


def score_frame(data: StudyData, summaries: Sequence[Summary]) -> pandas.DataFrame:
    """Return every score in the tables under every seed, one per row.

    Columns: evaluator, protocol, metric, cell, encoder, one column per axis, prompt (in a study with
    `prompts`), seed, task, value, direction, degenerate. `degenerate` says why the score says nothing about its
    encoder, and is empty for other scores. In a study without `prompts`, this text is the same for all seeds of
    a row and task; if it is true of some seeds only, it names them.
    """
    import pandas

    axes = {axis_column(axis.name): axis.name for axis in data.axes}
    rows: list[dict[str, Any]] = []
    for summary in summaries:
        for row in summary.rows:
            rows += _scores_of_row(summary, row, axes)

    columns = ["evaluator", "protocol", "metric", "cell", "encoder", *axes]
    if data.prompts:
        columns.append("prompt")
    columns += ["seed", "task", "value", "direction", "degenerate"]
    return pandas.DataFrame(rows, columns=columns)


def _scores_of_row(
    summary: Summary,
    row: SummaryRow,
    axes: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    """Yield the scores of a table's row as rows of `score_frame`; `axes` maps columns to axes."""
    labels = {column: row.labels.get(axis) for column, axis in axes.items()}
    for number, column in enumerate(summary.columns):
        task = column.task
        if column.part:
            task += f" ({column.part})"
        for prompt, seed, score in summary.scores_of_runs(row.key, number):
            degenerate = row.cells[number].degenerate
            if prompt:
                degenerate = degenerate_reason(score)
            yield {
                "evaluator": summary.evaluator,
                "protocol": summary.protocol,
                "metric": column.metric,
                "cell": row.cell,
                "encoder": row.encoder,
                # The prompt comes before the labels: in a study without prompts, an axis may be called `prompt`.
                "prompt": prompt,
                **labels,
                "seed": seed,
                "task": task,
                "value": score.value,
                "direction": column.direction,
                "degenerate": degenerate,
            }


def table_names(summaries: Iterable[Summary]) -> tuple[str, ...]:
    """Return a unique name for the files and labels of each table.

    It consists of evaluator, protocol, metric, and a number if needed. Names stay different if only their
    letters and digits are compared, regardless of case. This includes the name of the file with all scores.
    """
    taken = {reduced(Path(SCORES).stem)}
    names = []
    for summary in summaries:
        parts = list(summary.names)
        if summary.metric:
            parts.append(summary.metric)
        name = re.sub(r"[^A-Za-z0-9._-]", "_", "-".join(parts))
        names.append(unique_name(name[:LONGEST], taken, reduced))
    return tuple(names)


def to_json(
    data: StudyData,
    summaries: Sequence[Summary],
    selection: Selection | None = None,
) -> str:
    """Return all results of a study as JSON; numbers that are not finite are null."""
    if selection is None:
        selection = select(data, summaries)

    axes = []
    for axis in data.axes:
        axes.append(_attributes(axis, "name labels numbers"))
    excluded = []
    for name, reasons in data.excluded:
        excluded.append({"cell": name, "reasons": reasons})
    prompt_factor = None
    if data.prompts:
        prompt_factor = data.prompt_factor
    document = {
        "schema": SCHEMA,
        "study": data.name,
        "axes": axes,
        **_attributes(data, "seeds prompts"),
        "prompt_factor": prompt_factor,
        **_attributes(data, "baseline finished total"),
        "cells": list(map(_cell, data.cells)),
        "excluded": excluded,
        "tables": list(map(_table, summaries, table_names(summaries))),
        "chosen": _fields(selection),
    }
    text = json.dumps(
        plain(document),
        indent=2,
        ensure_ascii=False,
        allow_nan=False,
    )
    return f"{text}\n"


def _fields(record: attrs.AttrsInstance | None) -> dict[str, Any] | None:
    """Return the fields of a record, and of records in it, as JSON data; None if there is no record."""
    if record is None:
        return None
    return attrs.asdict(record)


def _attributes(record: object, names: str) -> dict[str, Any]:
    """Return attributes of a record, by name; `names` has the names, separated by spaces."""
    return {name: getattr(record, name) for name in names.split()}


def _names_in_results(directory: Path) -> list[str]:
    """Return the names of the tables in an earlier `results.json`; empty if it cannot be read."""
    try:
        tables = read_json(directory / RESULTS)["tables"]
        names = [table["name"] for table in tables]
    except UNREADABLE:
        return []

    names_of_files = []
    for name in names:
        # A damaged file could have a path that leads out of the directory.
        if isinstance(name, str) and Path(name).name == name:
            names_of_files.append(name)
    return names_of_files


def _cell(cell: CellInfo) -> dict[str, Any]:
    runs = []
    for run in cell.runs:
        record = _attributes(run, "prompt seed status directory error seconds")
        if run.directory is not None:
            # With slashes on every system.
            record["directory"] = run.directory.as_posix()
        runs.append(record)
    return {**_attributes(cell, "name labels differences"), "runs": runs}


def _table(summary: Summary, name: str) -> dict[str, Any]:
    columns = []
    for column in summary.columns:
        columns.append(_attributes(column, "task part metric direction protocol"))
    return {
        "name": name,
        **_attributes(summary, "evaluator protocol note over test"),
        "columns": columns,
        "rows": list(map(_row, summary.rows)),
        "references": list(map(attrs.asdict, summary.references)),
        "groups": _groups(summary.groups),
        "prompts": list(map(_under_prompts, rows_under_prompts(summary))),
    }


def _under_prompts(row: RowUnderPrompts) -> dict[str, Any]:
    return {
        **_attributes(row.row, "cell encoder"),
        **_attributes(row, "means stds"),
    }


def _row(row: SummaryRow) -> dict[str, Any]:
    return {
        **_attributes(row, "cell encoder labels status error"),
        "values": list(map(record_of, row.cells)),
    }


def _groups(groups: RankGroups | None) -> dict[str, Any] | None:
    if groups is None:
        return None
    return {
        "level": SIGNIFICANT,
        **_attributes(groups, "pairs basis reason"),
        "cells": list(map(_compared, groups.rows)),
        "left": dict(groups.left),
    }


def _compared(row: GroupedRow) -> dict[str, Any]:
    fields = attrs.asdict(row)
    del fields["name"], fields["alike"]
    return fields
