"""Rendering of tables as comma-separated values (CSV), without rounding."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Table

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of texts that spreadsheets treat as formulas."""

_OPTIONAL = ("rank", "place", "low", "high", "change")
"""Columns that are left out if no number has them."""


def to_csv(tables: Sequence[Table]) -> str:
    """Return tables as CSV: one line per number, with table, headers, task and metric before its quantities.

    A quantity that is unknown is empty. A number that is not finite is `nan`, `inf` or `-inf`. A text that a
    spreadsheet would treat as a formula gets a leading apostrophe.
    """
    headers: dict[str, None] = {}
    for table in tables:
        headers |= dict.fromkeys(table.header_names)

    lines = []
    for table in tables:
        for row, column, estimate in table.numbers():
            line: dict[str, object] = {"table": table.name, **headers}
            line |= zip(table.header_names, row.headers, strict=True)
            line |= {"task": column.task_and_part, "metric": column.metric}
            lines.append(line | _quantities(estimate))

    names = ["table", *headers, "task", "metric"]
    if lines:
        names = list(lines[0])
    for name in _OPTIONAL:
        if name in names and all(line[name] is None for line in lines):
            names.remove(name)
    rows: list[Iterable[object]] = [names]
    for line in lines:
        rows.append(map(line.get, names))
    return csv_text(rows)


def _quantities(estimate: Estimate) -> dict[str, object]:
    """Return the quantities of an estimate by the names of their CSV columns; None if one is unknown."""
    difference = corrected = published = None
    if estimate.judged is not None:
        difference = estimate.judged.difference
        corrected = estimate.judged.corrected
    if estimate.published:
        published = estimate.published[0].value
    low, high = estimate.interval or (None, None)
    return {
        "mean": estimate.value,
        "std": estimate.std,
        "seeds": len(estimate.seeds),
        "rank": estimate.rank,
        "place": estimate.place,
        "difference": difference,
        "corrected p": corrected,
        "published": published,
        "degenerate": estimate.degenerate,
        "low": low,
        "high": high,
        "change": estimate.change,
    }


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV; a text that a spreadsheet would treat as a formula gets a leading apostrophe."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in rows:
        writer.writerow(map(_not_a_formula, row))
    return stream.getvalue()


def _not_a_formula(value: object) -> object:
    """Return a value; a text that begins like a formula, but is no number, gets a leading apostrophe."""
    if not isinstance(value, str):
        return value
    # Readers would take a carriage return for the end of the row, since the module `csv` does not quote it.
    text = value.replace("\r", "\n")
    if not value.startswith(_FORMULA):
        return text
    try:
        float(value)
    except ValueError:
        return f"'{text}"
    return text
