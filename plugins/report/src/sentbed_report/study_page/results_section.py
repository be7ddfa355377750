"""Sections with a study's results: one wide table with a row per cell, then further metrics and costs."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from sentbed_report.page.sections import Section
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, is_table_of_costs
from sentbed_report.study_page.protocols_section import protocols_section
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Cell, Header, Row, Table


def results_sections(data: StudyData, summaries: Sequence[Summary]) -> list[Section]:
    """Return the sections: the wide table, then further metrics, costs and protocols."""
    if not summaries:
        sentences = ("No run has finished with scores yet.",)
        return [Section("Results", sentences=sentences, is_open=True)]

    first = []
    further = []
    titles: dict[str, None] = {}
    for summary in summaries:
        if not summary.metric and not is_table_of_costs(summary):
            first.append(summary)
        else:
            further.append(attrs.evolve(summary.table, title=summary.note))
            titles[f"{summary.evaluator} {summary.metric}".strip()] = None
    sections = []
    if first:
        table = wide_table(data, first)
        sections.append(Section("Results", tables=(table,), is_open=True))
    if further:
        sections.append(Section("More metrics", ", ".join(titles), tables=further))
    protocols = protocols_section(summaries)
    if protocols is not None:
        sections.append(protocols)
    return sections


def wide_table(data: StudyData, summaries: Sequence[Summary]) -> Table:
    """Join several tables into one: a row per cell, a column per axis, then the columns of each table.

    Scores on development data come last.
    """
    summaries = sorted(summaries, key=lambda summary: summary.development)
    tables = []
    columns: list[Column] = []
    for summary in summaries:
        tables.append(summary.table)
        group = _group(summary) if len(summaries) > 1 else ""
        columns += [attrs.evolve(column, group=group) for column in summary.columns]
    rows = _joined_rows(tables)

    shown = [axis_column(axis.name) for axis in data.axes if len(axis.labels) > 1]
    shown = shown or ["cell"]
    headers = [header.name for header in tables[0].headers]
    place_of_name = headers.index(shown[0])
    cells = []
    for place, row in enumerate(rows):
        if row.is_reference:
            names = [""] * len(headers)
            names[place_of_name] = row.headers[0]
            rows[place] = attrs.evolve(row, headers=tuple(names))
        else:
            cells.append(row.cell)
    if len(cells) > len(set(cells)):
        shown.append("encoder")
    title = summaries[0].note if len(summaries) == 1 else ""
    return Table(
        title,
        tuple(Header(name, name in shown) for name in headers),
        tuple(columns),
        tuple(rows),
        tuple(_notes(summaries)),
        baseline=data.baseline or "",
        is_complete=data.finished == data.total,
        ranked_within=data.ranks,
    )


def _joined_rows(tables: Sequence[Table]) -> list[Row]:
    """Return the joined rows of all tables; rows of published systems come last.

    A row without scores is left out if another table has scores of its cell.
    """
    alike: dict[tuple[str, ...], dict[int, Row]] = {}
    scored = set()
    for place, table in enumerate(tables):
        for row in table.rows:
            name, encoder, *_ = row.headers
            key: tuple[str, ...] = (name, encoder)
            if row.is_reference:
                key = ("published", name, *row.tags)
            alike.setdefault(key, {})[place] = row
            if encoder:
                scored.add(row.cell)
    rows = []
    for of_tables in alike.values():
        row = next(iter(of_tables.values()))
        if row.cell in scored and not row.headers[1]:
            continue
        cells: list[Cell] = []
        for place, table in enumerate(tables):
            if place in of_tables:
                cells += of_tables[place].cells
            else:
                cells += [None] * len(table.columns)
        rows.append(attrs.evolve(row, cells=tuple(cells)))
    return sorted(rows, key=lambda row: row.is_reference)


def _group(summary: Summary) -> str:
    """Return the heading above the columns of a table: what they have in common."""
    parts = list(summary.names)
    metrics = dict.fromkeys(
        column.metric for column in summary.columns if not column.average
    )
    if len(metrics) == 1:
        parts += metrics
    if summary.apart:
        parts.append(summary.apart)
    if summary.development:
        parts.append("development data")
    return ", ".join(parts)


def _notes(summaries: Sequence[Summary]) -> list[str]:
    """Return the notes of all tables, each once; a note that not all tables have names its tables."""
    tables: dict[str, list[str]] = {}
    for summary in summaries:
        for note in summary.notes:
            if note != summary.covered:
                tables.setdefault(note, []).append(summary.evaluator)
    notes = []
    for note, names in tables.items():
        if len(names) == len(summaries):
            notes.append(note)
        else:
            notes.append(f"{', '.join(dict.fromkeys(names))}: {note}")
    covered = [summary.covered for summary in summaries if summary.covered]
    # These notes differ only in the number of columns.
    return notes + covered[:1]
