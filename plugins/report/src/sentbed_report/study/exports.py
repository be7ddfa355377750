"""Exports of a study for papers and programs: `tables/`, `results.json`, `results.parquet`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
from sentbed.errors import DataError, RuntimeUnavailableError
from sentbed.helpers import atomic_file, read_json, write_atomic
from sentbed.tools import plain

from sentbed_report.formatting import expected_verdict
from sentbed_report.statistics.resampling import SIGNIFICANT
from sentbed_report.statistics.significance import Judged
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.equivalence import equivalences, key_of
from sentbed_report.study.found_demonstrations import FoundRow, found_demonstrations
from sentbed_report.study.published_number_comparison import Number, published_numbers, published_table
from sentbed_report.study.rank_groups import GroupedRow, RankGroups, TaskRank, TaskRanks
from sentbed_report.study.score_against_cost import ScoreAgainstCost, scores_against_cost
from sentbed_report.study.selection import select
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study.summary_tables import Measured, Summary, SummaryRow
from sentbed_report.table_formats import DIRECTORY, csv_text, reduced, to_latex, to_markdown

SCHEMA = 2
"""Schema version; increased when a key of `results.json` changes its meaning or is removed."""

RESULTS = "results.json"
PARQUET = "results.parquet"
SCORES = "scores.csv"
"""File with every score of every seed, one per line."""
MEASURED = ("mean", "std", "seeds", "difference", "corrected p", "published", "degenerate")
"""Columns of CSV for a cell's score in one task."""
EQUIVALENCE = ("no worse p", "equivalent p")
"""Further columns of CSV for the last task, where the study has a margin of equivalence."""


def write_exports(directory: Path, data: StudyData, summaries: Sequence[Summary] | None = None) -> None:
    """Write `tables/*.md`, `.csv` and `.tex`, `results.json` and, where pyarrow is there, `results.parquet`.

    `summaries` are the study's own where they are left out. Tables of an earlier `results.json` that are none
    of these are taken away; what else lies in `tables` stays.

    Raises:
        RunError: if the disk is full.
    """
    found = summarise(data) if summaries is None else summaries
    numbers = published_numbers(data, found)
    files = {SCORES: to_long_csv(data, found)}
    for summary, name in zip(found, _names(found), strict=True):
        shown = [one for one in numbers if _beside(summary, one)]
        files[f"{name}.md"] = to_markdown(summary) + (f"\n{published_table(shown)}\n" if shown else "")
        files[f"{name}.tex"] = to_latex(summary, name)
        files[f"{name}.csv"] = to_csv(summary)
    for file, content in files.items():
        write_atomic(directory / DIRECTORY / file, content)
    for file in [f"{name}.{suffix}" for name in _written(directory) for suffix in ("md", "tex", "csv")]:
        if file not in files:
            (directory / DIRECTORY / file).unlink(missing_ok=True)
    write_atomic(directory / RESULTS, to_json(data, found))
    try:
        write_parquet(directory / PARQUET, data, found)
    except RuntimeUnavailableError:
        # A file written on another machine would have outdated results.
        (directory / PARQUET).unlink(missing_ok=True)


def to_long_csv(data: StudyData, summaries: Sequence[Summary]) -> str:
    """Return several tables as long CSV, one score of one seed per line; see `to_csv`."""
    names = [*_types(data)]
    return csv_text([names, *([line[name] for name in names] for line in score_rows(data, summaries))])


def to_csv(summary: Summary) -> str:
    """Return a table as CSV with all its digits: for each column mean, std, seeds, p, published, degenerate.

    Where the study has a margin of equivalence, the corrected p-values of the last column's tests follow.
    Empty is what was not measured or not compared; `nan` and `inf` are scores that are not finite. A text
    that a spreadsheet would take for a formula has an apostrophe before it.
    """
    axes = list(dict.fromkeys(axis for row in summary.rows for axis in row.labels))
    columns = [f"{heading} {what}" for heading in summary.headings for what in MEASURED]
    tests = equivalences(summary)
    columns += [f"{summary.headings[-1]} {what}" for what in EQUIVALENCE if tests]
    rows: list[list[object]] = [["cell", "encoder", "status", *map(axis_column, axes), *columns]]
    for row in summary.rows:
        line: list[object] = [row.cell, row.encoder, row.status, *(row.labels.get(axis) for axis in axes)]
        line += (value for cell in row.cells for value in _measures(cell))
        if tests:
            test = tests.get(key_of(row))
            line += [None, None] if test is None else [test.corrected_no_worse, test.corrected_equivalent]
        rows.append(line)
    return csv_text(rows)


def to_tidy_csv(summaries: Sequence[Summary]) -> str:
    """Return several tables as one of CSV, a line a value: table, task and metric, and what `to_csv` has."""
    axes = list(dict.fromkeys(axis for one in summaries for row in one.rows for axis in row.labels))
    about = (
        "table",
        "evaluator",
        "protocol",
        "cell",
        "encoder",
        "status",
        *map(axis_column, axes),
    )
    rows: list[list[object]] = [[*about, "task", "metric", *MEASURED]]
    for summary, name in zip(summaries, _names(summaries), strict=True):
        for row in summary.rows:
            own = [name, summary.evaluator, summary.protocol, row.cell, row.encoder, row.status]
            labels = [row.labels.get(axis) for axis in axes]
            for column, cell in zip(summary.columns, row.cells, strict=True):
                rows.append([*own, *labels, column.task, column.metric, *_measures(cell)])
    return csv_text(rows)


def _measures(cell: Measured) -> list[object]:
    """Return the values of `MEASURED`; None for what was not measured or not compared."""
    judged = cell.judged
    compared = [None, None] if judged is None else [judged.difference, judged.corrected]
    published = cell.published[0].value if cell.published else None
    return [cell.mean, cell.std, len(cell.values), *compared, published, cell.degenerate]


def names_of(summaries: Iterable[Summary], taken: Iterable[str] = ()) -> tuple[str, ...]:
    """Return a name for each table, for files and labels: evaluator, protocol, metric, and a number.

    They differ, also from those of `taken`, in letters and digits alone, whatever their case.
    """
    known, names = set(map(reduced, taken)), []
    for summary in summaries:
        parts = [summary.evaluator]
        if summary.protocol not in ("", summary.evaluator):
            parts.append(summary.protocol)
        if summary.metric:
            parts.append(summary.metric)
        base = name = re.sub(r"[^A-Za-z0-9._-]", "_", "-".join(parts))
        times = 1
        while reduced(name) in known:
            times += 1
            name = f"{base}-{times}"
        known.add(reduced(name))
        names.append(name)
    return tuple(names)


def write_parquet(path: Path, data: StudyData, summaries: Sequence[Summary]) -> None:
    """Write every score of every seed as a row of a Parquet file.

    Raises:
        RuntimeUnavailableError: if pyarrow is not installed.
    """
    if find_spec("pyarrow") is None:
        raise RuntimeUnavailableError(
            "Parquet files need the package `pyarrow`, which is not installed; "
            "run `pip install 'sentbed-report[parquet]'`"
        )
    import pyarrow
    from pyarrow import parquet

    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in _types(data).items()])
    table = pyarrow.Table.from_pylist(list(score_rows(data, summaries)), schema=schema)
    with atomic_file(path) as stream:
        parquet.write_table(table, stream)


def to_json(data: StudyData, summaries: Sequence[Summary]) -> str:
    """Return all results as JSON; non-finite numbers are null."""
    document = {
        "schema": SCHEMA,
        "study": data.name,
        "axes": [{"name": a.name, "labels": a.labels, "numbers": a.numbers} for a in data.axes],
        "seeds": data.seeds,
        "baseline": data.baseline,
        "finished": data.finished,
        "total": data.total,
        "cells": [_cell(cell) for cell in data.cells],
        "excluded": [{"cell": name, "reasons": reasons} for name, reasons in data.excluded],
        "tables": [_table(one, name) for one, name in zip(summaries, _names(summaries), strict=True)],
        "demonstrations": [_found(row) for row in found_demonstrations(data, summaries)],
        "published": [_number(one) for one in published_numbers(data, summaries)],
        "decisions": None if data.decisions is None else attrs.asdict(data.decisions),
        "sampled": None if data.sampled is None else attrs.asdict(data.sampled),
        "costs": [_against(one) for one in scores_against_cost(summaries, data.cost)],
        "chosen": None if (chosen := select(data, summaries)) is None else attrs.asdict(chosen),
    }
    return json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _names(summaries: Sequence[Summary]) -> tuple[str, ...]:
    """Return the file names of the tables."""
    return names_of(summaries, [Path(SCORES).stem])


def _written(directory: Path) -> list[str]:
    """Return the names of the tables in `results.json`; empty if it cannot be read."""
    try:
        names = [table["name"] for table in read_json(directory / RESULTS)["tables"]]
    except (OSError, ValueError, LookupError, TypeError, DataError):
        return []
    return [name for name in names if isinstance(name, str) and Path(name).name == name]


def _beside(summary: Summary, number: Number) -> bool:
    """Whether a published number corresponds to a value in this table."""
    rows = [row for row in summary.rows if row.cell == number.cell]
    return any(number.row in cell.published for row in rows for cell in row.cells)


def _types(data: StudyData) -> dict[str, type]:
    axes = [axis_column(axis.name) for axis in data.axes]
    about = ("evaluator", "protocol", "metric", "cell", "encoder", *axes)
    after = ("direction", "degenerate")
    own = {"seed": int, "task": str, "value": float}
    return {**dict.fromkeys(about, str), **own, **dict.fromkeys(after, str)}


def score_rows(data: StudyData, summaries: Sequence[Summary]) -> Iterator[dict[str, Any]]:
    """Yield every score of every seed, as a row of `_types`."""
    for summary in summaries:
        for row in summary.rows:
            axes = {axis_column(axis.name): row.labels.get(axis.name) for axis in data.axes}
            for column, cell in zip(summary.columns, row.cells, strict=True):
                for seed, value in cell.values.items():
                    yield {
                        "evaluator": summary.evaluator,
                        "protocol": summary.protocol,
                        "metric": column.metric,
                        "cell": row.cell,
                        "encoder": row.encoder,
                        **axes,
                        "seed": seed,
                        "task": f"{column.task} ({column.part})" if column.part else column.task,
                        "value": value,
                        "direction": column.direction,
                        "degenerate": cell.degenerate,
                    }


def _cell(cell: CellInfo) -> dict[str, Any]:
    runs = [
        {
            "seed": run.seed,
            "status": run.status,
            "directory": None if run.directory is None else run.directory.as_posix(),
            "error": run.error,
            "seconds": run.seconds,
        }
        for run in cell.runs
    ]
    return {"name": cell.name, "labels": cell.labels, "differences": cell.differences, "runs": runs}


def _table(summary: Summary, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "evaluator": summary.evaluator,
        "protocol": summary.protocol,
        "note": summary.note,
        "over": summary.over,
        "test": summary.test,
        "columns": [
            {
                "task": c.task,
                "part": c.part,
                "metric": c.metric,
                "direction": c.direction,
                "protocol": c.protocol,
            }
            for c in summary.columns
        ],
        "rows": [_row(row) for row in summary.rows],
        "equivalence": [
            {"cell": cell, "encoder": encoder, **attrs.asdict(test)}
            for (cell, encoder), test in equivalences(summary).items()
        ],
        "references": [attrs.asdict(reference) for reference in summary.references],
        "groups": None if summary.groups is None else _groups(summary.groups),
    }


def _groups(groups: RankGroups) -> dict[str, Any]:
    return {
        "level": SIGNIFICANT,
        "pairs": groups.pairs,
        "basis": groups.basis,
        "reason": groups.reason,
        "cells": [_lettered(row) for row in groups.rows],
        "left": dict(groups.left),
        "over_tasks": None if groups.tasks is None else _over_tasks(groups.tasks),
    }


def _over_tasks(found: TaskRanks) -> dict[str, Any]:
    return {
        "tasks": found.tasks,
        "friedman": found.statistic,
        "p_value": found.p_value,
        "critical_difference": found.critical,
        "seeds": found.seeds,
        "cells": [_lettered(row) for row in found.rows],
        "left": dict(found.left),
    }


def _lettered(row: GroupedRow | TaskRank) -> dict[str, Any]:
    """Return the fields of a row, with letters for the numbers of its groups."""
    own = attrs.asdict(row, filter=lambda field, _: field.name not in ("name", "groups"))
    return {**own, "letters": row.letters}


def _against(found: ScoreAgainstCost) -> dict[str, Any]:
    return {
        **found.scores.ranked_by,
        "cost": found.column.task,
        "unit": found.column.metric,
        "points": [
            {
                "cell": one.row.cell,
                "encoder": one.row.encoder,
                "score": one.score,
                "cost": one.cost,
                "front": one.front,
            }
            for one in found.points
        ],
    }


def _found(row: FoundRow) -> dict[str, Any]:
    found, shares = row.found, row.found.shares
    return {
        "cell": row.cell.name,
        "seed": row.seed,
        "evaluator": found.evaluator,
        "sentence": found.sentence,
        "word": found.word,
        "score": found.score,
        "improvement": found.improvement,
        "candidates": len(found.scores),
        "helped": None if shares is None else shares.helped,
        "harmed": None if shares is None else shares.harmed,
        "gains": [
            {"against": gain.without, **gain.summary.ranked_by, "difference": gain.difference}
            for gain in row.gains
        ],
    }


def _row(row: SummaryRow) -> dict[str, Any]:
    return {
        "cell": row.cell,
        "encoder": row.encoder,
        "labels": row.labels,
        "status": row.status,
        "stopped": row.stopped,
        "error": row.error,
        "values": [_measured(cell) for cell in row.cells],
    }


def _measured(cell: Measured) -> dict[str, Any]:
    return {
        "mean": cell.mean,
        "std": cell.std,
        "seeds": cell.values,
        "place": None if cell.place is None else cell.place + 1,
        "rank": cell.rank,
        "degenerate": cell.degenerate,
        "against_baseline": None if cell.judged is None else _judged(cell.judged),
        "published": [
            {"source": row.source, "value": row.value, "difference": row.difference, "met": row.met}
            for row in cell.published
        ],
    }


def _judged(judged: Judged) -> dict[str, Any]:
    return {
        "difference": judged.difference,
        "low": judged.low,
        "high": judged.high,
        "p_value": judged.p_value,
        "corrected": judged.corrected,
        "degrees": judged.degrees,
        "basis": judged.basis,
        "reason": judged.reason,
    }


def _number(one: Number) -> dict[str, Any]:
    row = one.row
    return {
        "cell": one.cell,
        "key": row.key,
        "value": row.value,
        "tolerance": row.tolerance,
        "source": row.source,
        "found": row.found,
        "difference": row.difference,
        "met": row.met,
        "verdict": expected_verdict(row),
    }
