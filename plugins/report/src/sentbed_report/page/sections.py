"""Sections of a report, with sentences, tables, figures and texts. They are rendered as HTML and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

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
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    """Sentences below the tables."""
    plots: Sequence[Plot] = ()
    """Figures, which only HTML shows."""
    texts: Sequence[Text] = ()
    is_open: bool = False
    """Whether the page shows the whole section without a click."""


@runtime_checkable
class CellRow(Protocol):
    """What names a row of a table: a cell of a study, or an encoder of a cell."""

    @property
    def name(self) -> str:
        """Text that the page shows."""

    @property
    def cell(self) -> str:
        """Name of the cell, by which the page filters rows."""


Value: TypeAlias = Cell | float | CellRow
"""Value in the rows of `table_of`: text or number of a cell of the table, or the cell of a study."""


def table_of(
    title: str,
    headers: Sequence[Header | str],
    columns: Iterable[Column | str],
    rows: Iterable[Iterable[Value]],
    notes: Iterable[str] = (),
) -> Table:
    """Return a table whose rows have a value for each header, then a value for each column.

    A header, or a column of texts, may be given by its heading alone. In a column of numbers, a value may be a
    float, or None for an unknown number. Surplus values of a row are ignored.
    """
    columns = list(columns)
    table_rows = []
    for first, *others in rows:
        name, cell = str(first), ""
        if isinstance(first, CellRow):
            name, cell = first.name, first.cell
        elif headers[0] == OF_CELLS:
            cell = name

        further = len(headers) - 1
        texts = (name, *map(str, others[:further]))
        cells = map(_cell, others[further:], columns)
        table_rows.append(Row(texts, tuple(cells), cell=cell))

    return Table(
        title,
        tuple(map(_header, headers)),
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


def _cell(value: Value, column: Column | str) -> Cell:
    if isinstance(value, float | int) or (value is None and isinstance(column, Column)):
        return Estimate(value=value)
    if isinstance(value, CellRow):
        return value.name
    return value
