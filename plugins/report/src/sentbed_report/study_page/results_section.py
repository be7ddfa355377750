"""The results of a study: one wide table, a row a cell, and the tables of further metrics and costs."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from sentbed_report.page.sections import Section
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.run_costs_in_tables import is_table_of_costs
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.protocols_section import protocols_section
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Cell, Header, Row, Table


def results_sections(data: StudyData, summaries: Sequence[Summary]) -> list[Section]:
    """Return the wide table, then what stands behind it: further metrics, costs and protocols."""
    first = [summary for summary in summaries if not summary.metric and not is_table_of_costs(summary)]
    further = [summary for summary in summaries if summary not in first]
    if not summaries:
        return [Section("Results", sentences=("No run has finished with scores yet.",), is_open=True)]
    sections = []
    if first:
        sections.append(Section("Results", tables=(wide_table(data, first),), is_open=True))
    if further:
        titles = dict.fromkeys(f"{summary.evaluator} {summary.metric}".strip() for summary in further)
        sections.append(
            Section(
                "More metrics",
                ", ".join(titles),
                tables=tuple(attrs.evolve(summary.table, title=summary.note) for summary in further),
            )
        )
    protocols = protocols_section(summaries)
    if protocols is not None:
        sections.append(protocols)
    return sections


def wide_table(data: StudyData, summaries: Sequence[Summary]) -> Table:
    """Return one table of several: a row a cell, a column an axis, then the columns of each summary.

    Scores on development data come last.
    """
    summaries = sorted(summaries, key=lambda summary: summary.development)
    columns: list[Column] = []
    for summary in summaries:
        group = _group(summary) if len(summaries) > 1 else ""
        columns += [attrs.evolve(column, group=group) for column in summary.columns]
    axes = [axis for axis in data.axes if len(axis.labels) > 1]
    keys = _row_keys(summaries)
    several = len(keys) > len({cell for cell, _ in keys})
    headers = (
        Header("cell", shown=not axes),
        Header("encoder", shown=several),
        *(Header(axis_column(axis.name)) for axis in axes),
    )
    rows_of_tables = [{row.key: row for row in summary.rows} for summary in summaries]
    rows = []
    for key in keys:
        cell, encoder = key
        of_tables = [rows_of_table.get(key) for rows_of_table in rows_of_tables]
        known = next(row for row in of_tables if row is not None)
        labels = tuple(known.labels[axis.name] for axis in axes)
        cells: list[Cell] = []
        for summary, row in zip(summaries, of_tables, strict=True):
            cells += [None] * len(summary.columns) if row is None else row.cells
        tags = ["baseline"] if cell == data.baseline else []
        if known.remark:
            tags.append(known.remark)
        rows.append(Row((cell, encoder, *labels), tuple(cells), tuple(tags), cell))
    title = summaries[0].note if len(summaries) == 1 else ""
    return Table(
        title,
        headers,
        tuple(columns),
        (*rows, *_references(summaries, len(axes))),
        tuple(_notes(summaries)),
        baseline=data.baseline or "",
        is_complete=data.finished == data.total,
        ranked_within=data.ranks,
    )


def _group(summary: Summary) -> str:
    """Return what the columns of a table have in common."""
    parts = list(summary.names)
    metrics = dict.fromkeys(column.metric for column in summary.columns if not column.average)
    if len(metrics) == 1:
        parts += metrics
    if summary.apart:
        parts.append(summary.apart)
    if summary.development:
        parts.append("development data")
    return ", ".join(parts)


def _row_keys(summaries: Sequence[Summary]) -> list[tuple[str, str]]:
    """Return cell and encoder of each row; a cell without scores has a row if no table has scores of it."""
    keys = dict.fromkeys(row.key for summary in summaries for row in summary.rows)
    scored = {cell for cell, encoder in keys if encoder}
    return [(cell, encoder) for cell, encoder in keys if encoder or cell not in scored]


def _references(summaries: Sequence[Summary], axes: int) -> list[Row]:
    """Return a row for each published system, with its numbers in all tables."""
    systems: dict[tuple[str, ...], list[Row | None]] = {}
    for place, summary in enumerate(summaries):
        for row in summary.table.rows:
            if row.is_reference:
                of_system = systems.setdefault((row.headers[0], *row.tags), [None] * len(summaries))
                of_system[place] = row
    rows = []
    for (name, *tags), of_tables in systems.items():
        cells: list[Cell] = []
        for summary, reference in zip(summaries, of_tables, strict=True):
            cells += [None] * len(summary.columns) if reference is None else reference.cells
        labels = [name, *([""] * (axes - 1))] if axes else []
        rows.append(Row((name, "", *labels), tuple(cells), tuple(tags), is_reference=True))
    return rows


def _notes(summaries: Sequence[Summary]) -> list[str]:
    """Return the notes of all tables, each once; one that is not on all of them names its table."""
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
    # They differ in the number of columns only.
    return notes + covered[:1]
