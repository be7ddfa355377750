"""Published numbers beside those of a study, as a section of its report."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed_report.formatting import count, expected_digits, expected_kind, expected_verdict, tolerance_text
from sentbed_report.page.sections import Section
from sentbed_report.study.published_number_comparison import Number, published_numbers
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Header, Link, Row, Table


def published_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section; None if the study has no published numbers."""
    numbers = published_numbers(data, summaries)
    if not numbers:
        return None
    deciding = [one.row for one in numbers if one.row.decides]
    met = sum(row.met is True for row in deciding)
    line = f"{count(len(numbers), 'number')} to compare"
    if deciding:
        line = f"{met} of {count(len(deciding), 'number')} met"
    return Section("Published", line, tables=(published_table(numbers),), notes=published_notes(data))


def published_table(numbers: Sequence[Number]) -> Table:
    """Return published numbers with those found."""
    digits = max((expected_digits(one.row) for one in numbers), default=2)
    columns = (
        Column("found", digits=digits),
        Column("published", digits=digits),
        Column("difference", form="signed", digits=digits),
        Column("tolerance"),
        Column("result"),
        Column("source"),
    )
    rows = []
    for one in numbers:
        row = one.row
        cells = (
            Estimate(value=row.found),
            Estimate(value=row.value),
            Estimate(value=row.difference),
            tolerance_text(row),
            Link(expected_verdict(row), "", expected_kind(row)),
            row.source,
        )
        rows.append(Row((one.cell, row.key), cells, cell=one.cell))
    return Table("", (Header("cell"), Header("number")), columns, tuple(rows))


def published_notes(data: StudyData) -> tuple[str, ...]:
    """Return what is known of each published table, a sentence or two each."""
    notes = []
    for title, table in data.expected.items():
        hours = "" if table.hours is None else f"about {table.hours:g} h a cell"
        made = " on ".join(part for part in (hours, table.hardware) if part)
        parts = [f"{made}."] if made else []
        if table.note:
            parts.append(table.note)
        if parts:
            notes.append(f"{title}: {' '.join(parts)}")
        for cell, reason in table.contradicted.items():
            notes.append(f"{title}, {cell}: not to be met, and not counted, since {reason}.")
    return tuple(notes)
