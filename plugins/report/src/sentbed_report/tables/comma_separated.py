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
    """Return a table as CSV: one line per row, and a CSV column for each quantity, such as mean and std.

    A quantity that is unknown is empty. A number that is not finite is `nan`, `inf` or `-inf`. A text that a
    spreadsheet would treat as a formula gets a leading apostrophe.
    """
    heading: list[object] = [*table.header_names]
    lines: list[list[object]] = [[*row.headers] for row in table.rows]
    for index, column in enumerate(table.columns):
        cells = [row.cells[index] for row in table.rows]
        quantities = _quantities(cells)
        for name in quantities:
            heading.append(f"{column.full_heading} {name}")
        if not quantities:
            heading.append(column.full_heading)

        width = max(len(quantities), 1)
        for line, cell in zip(lines, cells, strict=True):
            values: list[object] = [None] * width
            if isinstance(cell, Estimate):
                values = [value(cell) for value in quantities.values()]
            elif cell is not None:
                values[0] = plain_text(cell)
            line.extend(values)
    return csv_text([heading, *lines])


def to_long_csv(tables: Sequence[Table]) -> str:
    """Return tables as CSV: one line per number, with table, headers, task and metric before its quantities."""
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


def _quantities(cells: Sequence[Cell]) -> dict[str, Callable[[Estimate], object]]:
    """Return name of a CSV column -> function that returns its value for an estimate; empty without estimates."""
    estimates = [cell for cell in cells if isinstance(cell, Estimate)]
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
