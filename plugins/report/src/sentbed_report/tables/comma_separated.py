"""Rendering of tables as comma-separated values (CSV), without rounding."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence

from sentbed_report.tables.estimate import QUANTITIES, Estimate
from sentbed_report.tables.table import Table

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of texts that spreadsheets treat as formulas."""


def to_csv(tables: Sequence[Table]) -> str:
    """Return tables as CSV: one line per number, with table, headers, task and metric before its quantities.

    A quantity that is unknown is empty. A number that is not finite is `nan`, `inf` or `-inf`. A text that a
    spreadsheet would treat as a formula gets a leading apostrophe.
    """
    headers: dict[str, None] = {}
    estimates: list[Estimate] = []
    for table in tables:
        headers |= dict.fromkeys(table.header_names)
        for _, _, estimate in table.numbers():
            estimates.append(estimate)

    quantities = _quantities(estimates)
    lines: list[list[object]] = [["table", *headers, "task", "metric", *quantities]]
    for table in tables:
        names = table.header_names
        for row, column, estimate in table.numbers():
            labels = dict(zip(names, row.headers, strict=True))
            line: list[object] = [table.name, *map(labels.get, headers)]
            line += [column.task_and_part, column.metric]
            line += [value(estimate) for value in quantities.values()]
            lines.append(line)
    return csv_text(lines)


def _quantities(
    estimates: Sequence[Estimate],
) -> dict[str, Callable[[Estimate], object]]:
    """Return name of a CSV column -> function that returns its value for an estimate; empty without estimates."""
    columns: dict[str, Callable[[Estimate], object]] = {}
    if not estimates:
        return columns
    for quantity in QUANTITIES:
        is_used = quantity.always
        for estimate in estimates:
            is_used = is_used or quantity.record(estimate) is not None
        if is_used:
            columns |= quantity.cells
    return columns


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
