"""The differences of the rows of a table from its baseline, as a table of their own."""

from __future__ import annotations

from sentbed_report.formatting import chance, probability
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Header, Row, Table


def difference_table(summary: Summary) -> Table:
    """Return the comparisons with the baseline, one row per cell and score."""
    rows = []
    for row in summary.rows:
        for column, cell in zip(summary.columns, row.cells, strict=True):
            judged = cell.judged
            if judged is None or judged.p_value is None or judged.corrected is None:
                continue
            difference = Estimate(value=judged.difference, interval=judged.interval)
            p_value = probability(judged.p_value)
            corrected = chance(judged.corrected)
            margin = Estimate(value=judged.equal_within)
            headers = (row.name, column.heading)
            cells = (difference, p_value, corrected, margin)
            rows.append(Row(headers, cells, cell=row.cell))
    columns = (
        Column("difference, 95 % interval", form="signed", digits=summary.digits),
        Column("p"),
        Column("p after Holm's correction"),
        Column("equal within", digits=summary.digits),
    )
    return Table("", (Header("cell"), Header("score")), columns, tuple(rows))
