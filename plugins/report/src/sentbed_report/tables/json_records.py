"""Conversion of tables into JSON data."""

from __future__ import annotations

from typing import Any

from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Table


def to_records(table: Table) -> list[dict[str, Any]]:
    """Return each row of a table as heading -> text or number with its quantities."""
    names = [header.name for header in table.headers]
    records = []
    for row in table.rows:
        record: dict[str, Any] = dict(zip(names, row.headers, strict=True))
        for column, cell in zip(table.columns, row.cells, strict=True):
            record[column.heading] = cell
            if isinstance(cell, Estimate):
                record[column.heading] = record_of(cell)
        records.append(record)
    return records


def record_of(estimate: Estimate) -> dict[str, Any]:
    """Return a number with all its quantities as JSON data."""
    against_baseline = None
    judged = estimate.judged
    if judged is not None:
        low, high = judged.interval or (None, None)
        against_baseline = {
            "difference": judged.difference,
            "low": low,
            "high": high,
            "p_value": judged.p_value,
            "corrected": judged.corrected,
            "equal_within": judged.equal_within,
            "basis": judged.basis,
            "reason": judged.reason,
        }
    published = []
    for row in estimate.published:
        published.append(
            {
                "source": row.source,
                "value": row.value,
                "difference": row.difference,
                "met": row.met,
            }
        )
    return {
        "mean": estimate.value,
        "std": estimate.std,
        "seeds": estimate.seeds,
        "rank": estimate.rank,
        "place": estimate.place,
        "against_baseline": against_baseline,
        "published": published,
        "degenerate": estimate.degenerate,
        "interval": estimate.interval,
    }
