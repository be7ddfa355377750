"""Section that compares published numbers with the numbers of the study."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed.protocols import ExpectedRow

from sentbed_report.formatting import (
    count,
    expected_digits,
    expected_verdict,
    number,
)
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.study.published_number_comparison import published_numbers
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Header, Link, Table


def published_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section; None if the study has no published numbers."""
    numbers = published_numbers(data, summaries)
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
    deciding = 0
    met = 0
    for row in rows:
        if row.decides:
            deciding += 1
            if row.met:
                met += 1
    if deciding == 0:
        return "to compare with"
    return f"{met} of {count(deciding, 'expected number')} met"


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
    """Return sentences on each published table: source, hardware, hours and known differences."""
    notes = []
    for title, table in data.expected.items():
        conditions = []
        if table.hours is not None:
            conditions.append(f"about {table.hours:g} h per cell")
        if table.hardware:
            conditions.append(table.hardware)

        parts = []
        if conditions:
            parts.append(f"{' on '.join(conditions)}.")
        if table.note:
            parts.append(table.note)
        if parts:
            notes.append(f"{title}: {' '.join(parts)}")

        for cell, reason in table.contradicted.items():
            notes.append(f"{title}, {cell}: shown but not counted, since {reason}.")
    return tuple(notes)
