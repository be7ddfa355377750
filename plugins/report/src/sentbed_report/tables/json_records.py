"""Conversion of tables into JSON data."""

from __future__ import annotations

from typing import Any

from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Cell, Table, plain_text


def to_records(table: Table) -> dict[str, Any]:
    """Return a table as JSON data: its columns, and the headers and values of each row."""
    names = table.header_names
    rows = []
    for row in table.rows:
        labels = dict(zip(names, row.headers, strict=True))
        values = list(map(record_of, row.cells))
        rows.append({**labels, "tags": row.tags, "values": values})

    columns = []
    for column in table.columns:
        columns.append(
            {
                "task": column.task,
                "metric": column.metric,
                "heading": column.heading,
                "direction": column.direction,
                "protocol": column.protocol,
            }
        )
    return {
        "title": table.title,
        "columns": columns,
        "rows": rows,
        "notes": table.notes,
    }


def record_of(cell: Cell) -> Any:
    """Return a cell as JSON data: a number with all its quantities, or a text."""
    if cell is None:
        return None
    if not isinstance(cell, Estimate):
        return plain_text(cell)

    published = []
    for row in cell.published:
        published.append(
            {
                "source": row.source,
                "value": row.value,
                "difference": row.difference,
                "met": row.met,
            }
        )
    return {
        "mean": cell.value,
        "std": cell.std,
        "seeds": cell.seeds,
        "rank": cell.rank,
        "place": cell.place,
        "against_baseline": _against_baseline(cell),
        "published": published,
        "degenerate": cell.degenerate,
        "interval": cell.interval,
        "change": cell.change,
    }


def _against_baseline(estimate: Estimate) -> dict[str, Any] | None:
    judged = estimate.judged
    if judged is None:
        return None
    low, high = judged.interval or (None, None)
    return {
        "difference": judged.difference,
        "low": low,
        "high": high,
        "p_value": judged.p_value,
        "corrected": judged.corrected,
        "basis": judged.basis,
        "reason": judged.reason,
    }
