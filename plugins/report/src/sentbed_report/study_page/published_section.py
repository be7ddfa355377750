"""Section on published numbers, compared with the study's."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed.protocols import ExpectedRow

from sentbed_report.formatting import (
    count,
    expected_digits,
    expected_kind,
    expected_verdict,
    tolerance_text,
)
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.study.published_number_comparison import published_numbers
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Link, Table


def published_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section; None if the study has no published numbers."""
    numbers = published_numbers(data, summaries)
    if not numbers:
        return None
    rows = [number.row for number in numbers]
    table = expected_table(rows, "published", [number.cell for number in numbers])
    return Section(
        "Published", met_line(rows), tables=[table], notes=published_notes(data)
    )


def met_line(rows: Sequence[ExpectedRow]) -> str:
    """Return how many of the numbers with a tolerance are met; the other numbers are only shown."""
    deciding = [row for row in rows if row.decides]
    if not deciding:
        return "to compare with"
    met = sum(row.met is True for row in deciding)
    return f"{met} of {count(len(deciding), 'expected number')} met"


def expected_table(
    rows: Sequence[ExpectedRow], name: str, cells: Sequence[str] = ()
) -> Table:
    """Return a table of expected and measured numbers, the former under the heading `name`.

    `cells` are the cells of the rows, if the table is that of a study.
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
    for row in rows:
        verdict = Link(expected_verdict(row), "", expected_kind(row))
        numbers = (row.found, row.value, row.difference)
        lines.append([row.key, *numbers, tolerance_text(row), verdict, row.source])
    headers = ["number"]
    if cells:
        headers = ["cell", "number"]
        lines = [[cell, *line] for cell, line in zip(cells, lines, strict=True)]
    return table_of("", headers, columns, lines)


def published_notes(data: StudyData) -> tuple[str, ...]:
    """Return sentences on each published table: source, hardware, hours and known differences."""
    notes = []
    for title, table in data.expected.items():
        hours = "" if table.hours is None else f"about {table.hours:g} h a cell"
        conditions = " on ".join(part for part in (hours, table.hardware) if part)
        parts = [f"{conditions}."] if conditions else []
        if table.note:
            parts.append(table.note)
        if parts:
            notes.append(f"{title}: {' '.join(parts)}")
        for cell, reason in table.contradicted.items():
            notes.append(
                f"{title}, {cell}: not to be met, and not counted, since {reason}."
            )
    return tuple(notes)
