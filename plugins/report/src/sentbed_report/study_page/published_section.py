"""Section that compares published numbers with the numbers of the study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sentbed.protocols import ExpectedRow

from sentbed_report.formatting import (
    MET,
    NOT_MEASURED,
    count,
    expected_digits,
    expected_verdict,
    number,
)
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.study.published_number_comparison import Number
from sentbed_report.study.study_data import StudyData
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Header, Link, Table


def published_section(data: StudyData, numbers: Sequence[Number]) -> Section | None:
    """Return the section on published numbers of the study; None if there are none."""
    if not numbers:
        return None
    rows = []
    cells = []
    for published in numbers:
        rows.append(published.row)
        cells.append(published.cell)
    table = expected_table(rows, "published", cells)
    notes = published_notes(data)
    return Section("Published", met_line(rows), tables=[table], notes=notes)


def met_line(rows: Sequence[ExpectedRow]) -> str:
    """Return how many of the numbers with a tolerance are met; other numbers are not counted."""
    verdicts = Counter(expected_verdict(row) for row in rows if row.decides)
    if not verdicts:
        return "to compare with"
    line = f"{verdicts[MET]} of {count(verdicts.total(), 'expected number')} met"
    if verdicts[NOT_MEASURED]:
        line += f", {verdicts[NOT_MEASURED]} not measured"
    return line


def expected_table(
    rows: Sequence[ExpectedRow],
    name: str,
    cells: Sequence[str] = (),
) -> Table:
    """Return a table of measured and expected numbers. The expected numbers have the heading `name`.

    `cells` has, for each row, the name of the study's cell whose score was measured; it is empty for a run.
    """
    digits = max(map(expected_digits, rows), default=2)
    columns = (
        Column("found", digits=digits),
        Column(name, digits=digits),
        Column("difference", form="signed", digits=digits),
        "tolerance",
        "result",
        "source",
    )

    lines: list[list[Value]] = []
    for cell, row in zip(cells or [""] * len(rows), rows, strict=True):
        kind = tolerance = ""
        if row.met is not None:
            kind = "met" if row.met else "unmet"
        if row.tolerance is not None:
            tolerance = f"±{number(row.tolerance, expected_digits(row))}"
        lines.append(
            [
                cell,
                row.key,
                row.found,
                row.value,
                row.difference,
                tolerance,
                Link(expected_verdict(row), "", kind),
                row.source,
            ]
        )
    headers = [Header("cell", shown=bool(cells)), Header("number")]
    return table_of("", headers, columns, lines)


def published_notes(data: StudyData) -> tuple[str, ...]:
    """Return sentences on each published table: hardware, known differences, and what is not counted."""
    notes = []
    for title, table in data.expected.items():
        if table.hardware:
            notes.append(f"{title}: measured on {table.hardware}.")
        if table.note:
            notes.append(f"{title}: {table.note}")
        for cell, reason in table.contradicted.items():
            notes.append(f"{title}, {cell}: shown but not counted, since {reason}.")
    return tuple(notes)
