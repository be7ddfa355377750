"""Sections of a report, with tables, figures and texts. They are rendered as HTML and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs

from sentbed_report.figures.plot import Plot
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Cell, Header, Row, Table

OF_CELLS = "cell"
"""Header of a column with names of cells; the page filters rows by these names."""


@attrs.frozen
class Text:
    """A text that is shown verbatim, such as a recipe."""

    text: str
    language: str = "text"
    title: str = ""


@attrs.frozen(eq=False)
class Section:
    """A section of a report. The page shows its title and summary at first, and all else after a click."""

    title: str
    summary: str = ""
    """What the section shows, in a few words."""
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    """Sentences below the tables."""
    plots: Sequence[Plot] = ()
    """Figures, which only HTML shows."""
    texts: Sequence[Text] = ()
    is_open: bool = False
    """Whether the page shows the whole section without a click."""


Value: TypeAlias = Cell | float
"""Value in the rows of `table_of`; a float is a number without further quantities."""


def table_of(
    title: str,
    headers: Sequence[Header | str],
    columns: Iterable[Column | str],
    rows: Iterable[Iterable[Value]],
    notes: Iterable[str] = (),
) -> Table:
    """Return a table whose rows have a text for each header, then a value for each column.

    A header or column may be given by its heading alone. None is an unknown number or text.
    """
    all_headers = tuple(map(_header, headers))
    table_rows = []
    for row in rows:
        values = list(map(_cell, row))
        texts = tuple(map(str, values[: len(headers)]))
        cell = ""
        if all_headers[0].name == OF_CELLS:
            cell = texts[0]
        table_rows.append(Row(texts, tuple(values[len(headers) :]), cell=cell))
    return Table(
        title,
        all_headers,
        tuple(map(_column, columns)),
        tuple(table_rows),
        tuple(notes),
    )


def _header(header: Header | str) -> Header:
    if isinstance(header, str):
        return Header(header)
    return header


def _column(column: Column | str) -> Column:
    if isinstance(column, str):
        return Column(column)
    return column


def _cell(value: Value) -> Cell:
    if isinstance(value, int | float):
        return Estimate(value=value)
    return value
