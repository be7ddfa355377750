"""Sections with a study's results: a wide table with one row per cell, then further metrics and costs."""

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
    """Return the sections: the wide table; further metrics and costs; protocols."""
    if not summaries:
        sentences = ("No run has finished with scores yet.",)
        return [Section("Results", sentences=sentences, is_open=True)]

    joined = []
    further = []
    titles: dict[str, None] = {}
    for summary in summaries:
        if not summary.metric and not is_table_of_costs(summary):
            joined.append(summary)
        else:
            further.append(attrs.evolve(summary.table, title=summary.note))
            titles[f"{summary.evaluator} {summary.metric}".strip()] = None

    sections = []
    if joined:
        table = wide_table(data, joined)
        sections.append(Section("Results", tables=(table,), is_open=True))
    if further:
        sections.append(Section("More metrics", ", ".join(titles), tables=further))
    protocols = protocols_section(summaries)
    if protocols is not None:
        sections.append(protocols)
    return sections


def wide_table(data: StudyData, summaries: Sequence[Summary]) -> Table:
    """Join several tables into one table: a row per cell, a column per axis, then the columns of each table.

    Scores on development data come last.
    """
    summaries = sorted(summaries, key=lambda summary: summary.development)
    tables = []
    columns: list[Column] = []
    for summary in summaries:
        tables.append(summary.table)
        group = _group(summary) if len(summaries) > 1 else ""
        for column in summary.columns:
            columns.append(attrs.evolve(column, group=group))

    shown = []
    for axis in data.axes:
        if len(axis.labels) > 1:
            shown.append(axis_column(axis.name))
    shown = shown or ["cell"]
    names = tables[0].header_names
    rows = []
    cells = set()
    for row in _joined_rows(tables):
        if row.is_reference:
            rows.append(_named_under(row, names.index(shown[0]), len(names)))
            continue
        rows.append(row)
        # Two rows of one cell have different encoders.
        if row.cell in cells and "encoder" not in shown:
            shown.append("encoder")
        cells.add(row.cell)

    title = summaries[0].note if len(summaries) == 1 else ""
    return Table(
        title,
        tuple(Header(name, name in shown) for name in names),
        tuple(columns),
        tuple(rows),
        tuple(_notes(summaries)),
        baseline=data.baseline or "",
        is_complete=data.finished == data.total,
        ranked_within=data.ranks,
    )


def _named_under(
    row: Row,
    index: int,
    headers: int,
) -> Row:
    """Return the row of a published system with its name under the header at `index`; other headers are empty."""
    texts = [""] * headers
    texts[index] = row.headers[0]
    return attrs.evolve(row, headers=tuple(texts))


def _joined_rows(tables: Sequence[Table]) -> list[Row]:
    """Return the rows of the joined table; rows of published systems come last.

    A row without scores is left out if another table has scores of its cell.
    """
    # Cell and encoder, or published system -> index of a table -> its row.
    rows_by_key: dict[tuple[str, ...], dict[int, Row]] = {}
    scored = set()
    for place, table in enumerate(tables):
        for row in table.rows:
            name, encoder, *_ = row.headers
            key: tuple[str, ...] = (name, encoder)
            if row.is_reference:
                key = ("published", name, *row.tags)
            rows_by_key.setdefault(key, {})[place] = row
            if encoder:
                scored.add(row.cell)

    rows = []
    for of_tables in rows_by_key.values():
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
    """Return the heading above all columns of a table: evaluator, protocol, metric and data that they share."""
    parts = list(summary.names)
    metrics = {column.metric for column in summary.columns if not column.average}
    if len(metrics) == 1:
        parts += metrics
    if summary.apart:
        parts.append(summary.apart)
    if summary.development:
        parts.append("development data")
    return ", ".join(parts)


def _notes(summaries: Sequence[Summary]) -> list[str]:
    """Return the notes of the tables, each once. A note that not all tables have begins with their evaluators."""
    tables: dict[str, list[str]] = {}
    for summary in summaries:
        for note in summary.notes:
            tables.setdefault(note, []).append(summary.evaluator)

    notes = []
    for note, names in tables.items():
        if len(names) == len(summaries):
            notes.append(note)
        else:
            notes.append(f"{', '.join(dict.fromkeys(names))}: {note}")
    return notes
