"""Export of a study's results to files: `tables/` for papers, `results.json` for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed.helpers import write_atomic
from sentbed.tools import plain

from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.measurements import study_frame
from sentbed_report.study.prompt_effects import RowUnderPrompts, rows_under_prompts
from sentbed_report.study.rank_groups import RankGroups
from sentbed_report.study.selection import Selection, select
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.comma_separated import csv_text
from sentbed_report.tables.json_records import record_of
from sentbed_report.tables.latex import reduced, to_latex
from sentbed_report.tables.markdown import to_markdown
from sentbed_report.tables.table import Table
from sentbed_report.unique_names import LONGEST, unique_name

SCHEMA = 4
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

    `summaries` and `selection` are computed from `data` by default.

    Raises:
        RunError: if the disk is full.
    """
    if summaries is None:
        summaries = summarise(data)
    frame = study_frame(data).drop(columns="score")
    write_atomic(directory / DIRECTORY / SCORES, csv_text(frame))
    write_tables(directory, summaries)
    write_atomic(directory / RESULTS, to_json(data, summaries, selection))


def write_tables(directory: Path, summaries: Sequence[Summary]) -> None:
    """Write each table as `tables/NAME.md` and `.tex` into the directory of a study or run.

    Raises:
        RunError: if the disk is full.
    """
    for table in named_tables(summaries):
        for suffix, render in FORMATS.items():
            path = directory / DIRECTORY / f"{table.name}.{suffix}"
            write_atomic(path, render(table))


def named_tables(summaries: Sequence[Summary]) -> list[Table]:
    """Return the tables of the summaries, with names for their files."""
    tables = []
    for summary, name in zip(summaries, table_names(summaries), strict=True):
        tables.append(attrs.evolve(summary.table, name=name))
    return tables


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

    excluded = []
    for name, reasons in data.excluded:
        excluded.append({"cell": name, "reasons": reasons})
    settings = {
        "schema": SCHEMA,
        "study": data.name,
        "axes": data.axes,
        "seeds": data.seeds,
        "prompts": data.prompts,
        "baseline": data.baseline,
    }
    results = {
        "finished": data.finished,
        "total": data.total,
        "cells": list(map(_cell, data.cells)),
        "excluded": excluded,
        "tables": list(map(_table, summaries, table_names(summaries))),
        "chosen": selection,
    }
    text = json.dumps(
        plain(settings | results),
        indent=2,
        ensure_ascii=False,
        allow_nan=False,
    )
    return f"{text}\n"


def _cell(cell: CellInfo) -> dict[str, Any]:
    runs = []
    for run in cell.runs:
        runs.append(
            {
                "prompt": run.prompt,
                "seed": run.seed,
                "status": run.status,
                "directory": run.directory,
                "error": run.error,
                "seconds": run.seconds,
            }
        )
    return {
        "name": cell.name,
        "labels": cell.labels,
        "differences": cell.differences,
        "runs": runs,
    }


def _table(summary: Summary, name: str) -> dict[str, Any]:
    description = {
        "name": name,
        "evaluator": summary.evaluator,
        "protocol": summary.protocol,
        "note": summary.note,
        "over": summary.over,
        "test": summary.test,
    }
    numbers = {
        "columns": summary.columns,
        "rows": list(map(_row, summary.rows)),
        "references": summary.references,
        "groups": _groups(summary.groups),
        "prompts": list(map(_under_prompts, rows_under_prompts(summary))),
    }
    return description | numbers


def _row(row: SummaryRow) -> dict[str, Any]:
    return {
        "cell": row.cell,
        "encoder": row.encoder,
        "labels": row.labels,
        "status": row.status,
        "error": row.error,
        "values": list(map(record_of, row.cells)),
    }


def _under_prompts(row: RowUnderPrompts) -> dict[str, Any]:
    return {
        "cell": row.row.cell,
        "encoder": row.row.encoder,
        "means": row.means,
        "stds": row.stds,
    }


def _groups(groups: RankGroups | None) -> dict[str, Any] | None:
    if groups is None:
        return None
    return {
        "level": SIGNIFICANT,
        "pairs": groups.pairs,
        "basis": groups.basis,
        "reason": groups.reason,
        "cells": groups.rows,
        "left": dict(groups.left),
    }
