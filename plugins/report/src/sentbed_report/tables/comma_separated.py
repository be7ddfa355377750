"""Rendering of tables as comma-separated values (CSV), without rounding."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence

from sentbed_report.tables.estimate import QUANTITIES, Estimate
from sentbed_report.tables.table import Cell, Table, plain_text

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of texts that spreadsheets treat as formulas."""


def to_csv(table: Table) -> str:
    """Return a table with one row per line, and a CSV column for each quantity: mean, std, seeds, and so on.

    A value is empty if it was not measured or not compared; `nan` and `inf` are numbers that are not finite. A
    text that a spreadsheet would treat as a formula gets a leading apostrophe.
    """
    quantities = []
    for place in range(len(table.columns)):
        quantities.append(_quantities([row.cells[place] for row in table.rows]))
    heading: list[object] = [header.name for header in table.headers]
    for column, names in zip(table.columns, quantities, strict=True):
        heading += [f"{column.full_heading} {name}" for name in names] or [
            column.full_heading
        ]
    lines = [heading]
    for row in table.rows:
        line: list[object] = [*row.headers]
        for cell, names in zip(row.cells, quantities, strict=True):
            if isinstance(cell, Estimate):
                line += [value(cell) for value in names.values()]
            else:
                line += [
                    None if cell is None else plain_text(cell),
                    *([None] * (len(names) - 1)),
                ]
        lines.append(line)
    return csv_text(lines)


def to_long_csv(tables: Sequence[Table]) -> str:
    """Return several tables with one number per line: table, headers, task, metric, and its quantities."""
    headers = dict.fromkeys(header.name for table in tables for header in table.headers)
    quantities = _quantities(
        [cell for table in tables for _, _, cell in table.numbers()]
    )
    lines: list[list[object]] = [["table", *headers, "task", "metric", *quantities]]
    for table in tables:
        names = [header.name for header in table.headers]
        for row, column, estimate in table.numbers():
            labels = dict(zip(names, row.headers, strict=True))
            about = [labels.get(name) for name in headers]
            numbers = [value(estimate) for value in quantities.values()]
            lines.append(
                [table.name, *about, column.task_and_part, column.metric, *numbers]
            )
    return csv_text(lines)


def _quantities(cells: Sequence[Cell]) -> dict[str, Callable[[Estimate], object]]:
    """Return the CSV columns of numbers, each with the function for its values; empty for a text column."""
    estimates = [cell for cell in cells if isinstance(cell, Estimate)]
    columns: dict[str, Callable[[Estimate], object]] = {}
    if not estimates:
        return columns
    for quantity in QUANTITIES:
        if quantity.always or any(
            quantity.record(estimate) is not None for estimate in estimates
        ):
            columns |= quantity.cells
    return columns


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return comma-separated values; a text that a spreadsheet would treat as a formula gets an apostrophe."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in rows:
        writer.writerow([_harmless(value) for value in row])
    return stream.getvalue()


def _harmless(value: object) -> object:
    if not isinstance(value, str):
        return value
    # The module csv puts no quotes around a carriage return, and readers begin a row at it.
    text = value.replace("\r", "\n")
    if not value.startswith(_FORMULA):
        return text
    try:
        float(value)
    except ValueError:
        return f"'{text}"
    return text
