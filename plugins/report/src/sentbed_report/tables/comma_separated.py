"""Rendering of tables as comma-separated values (CSV), without rounding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Table

if TYPE_CHECKING:
    from pandas import DataFrame

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
"""With these a formula begins in a spreadsheet. Names may be those of somebody else's results."""


def to_csv(tables: Sequence[Table]) -> str:
    """Return tables as CSV: one line per number, with table, headers, task and metric before its quantities.

    A quantity that is unknown or undefined is empty.
    """
    import pandas

    lines: list[dict[str, object]] = []
    for table in tables:
        lines += _lines(table)
    # Whole numbers stay whole where some are unknown.
    frame = pandas.DataFrame(lines).astype({"rank": "Int64", "place": "Int64"})
    return csv_text(frame)


def csv_text(frame: DataFrame) -> str:
    """Return a data frame as CSV, with an apostrophe before a text that a spreadsheet would compute."""
    text: str = frame.map(_without_formula).to_csv(index=False, lineterminator="\n")
    return text


def _without_formula(value: object) -> object:
    """Return a value, after an apostrophe if it is a text that begins a formula. A number such as -2 is none."""
    if not isinstance(value, str):
        return value
    # Readers would take a carriage return for the end of the line, since the writer does not quote it.
    text = value.replace("\r", "\n")
    if not value.startswith(FORMULA_SIGNS):
        return text
    try:
        float(value)
    except ValueError:
        return f"'{text}"
    return text


def _lines(table: Table) -> Iterator[dict[str, object]]:
    """Yield name of a CSV column -> its value for each number of a table."""
    names = [header.name for header in table.headers]
    for row in table.rows:
        labels = dict(zip(names, row.headers, strict=True))
        for column, cell in zip(table.columns, row.cells, strict=True):
            if isinstance(cell, Estimate):
                score = {"task": column.task_and_part, "metric": column.metric}
                yield {"table": table.name, **labels, **score, **_quantities(cell)}


def _quantities(estimate: Estimate) -> dict[str, object]:
    """Return the quantities of an estimate by the names of their CSV columns; None if one is unknown."""
    difference = corrected = equal_within = published = None
    if estimate.judged is not None:
        difference = estimate.judged.difference
        corrected = estimate.judged.corrected
        equal_within = estimate.judged.equal_within
    if estimate.published:
        published = estimate.published[0].value
    return {
        "mean": estimate.value,
        "std": estimate.std,
        "seeds": len(estimate.seeds),
        "rank": estimate.rank,
        "place": estimate.place,
        "difference": difference,
        "corrected p": corrected,
        "equal within": equal_within,
        "published": published,
        "degenerate": estimate.degenerate,
    }
