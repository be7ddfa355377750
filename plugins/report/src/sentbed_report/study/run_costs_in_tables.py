"""Recognition of tables of costs among a study's tables."""

from __future__ import annotations

from sentbed_report.study.summary_tables import Summary


def is_table_of_costs(summary: Summary) -> bool:
    """Whether all columns of a table are costs."""
    return all(column.cost for column in summary.columns)
