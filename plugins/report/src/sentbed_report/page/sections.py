"""Sections of a report: sentences, tables, figures and texts, from which HTML and Markdown are rendered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import attrs

from sentbed_report.figures.plot import Plot
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Cell, Header, Row, Table

OF_CELLS = "cell"
"""Header of the column with names of cells, by which the page filters rows."""


@attrs.frozen
class Text:
    """A text that is shown verbatim, such as a recipe."""

    text: str
    language: str = "text"
    title: str = ""


@attrs.frozen(eq=False)
class Section:
    """A section of a report. The page shows title and summary, and the rest after a click."""

    title: str
    summary: str = ""
    """Its content in a few words."""
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    """Sentences below the tables."""
    plots: Sequence[Plot] = ()
    """Figures; Markdown has none."""
    texts: Sequence[Text] = ()
    is_open: bool = False
    """Whether the page shows the whole section without a click."""


@runtime_checkable
class CellRow(Protocol):
    """A cell of a study, or one of its encoders, that identifies a row of a table."""

    @property
    def name(self) -> str:
        """Text that is shown."""

    @property
    def cell(self) -> str:
        """Name of the cell, by which the page filters rows."""


Value: TypeAlias = Cell | float | CellRow
"""Value that `table_of` accepts in a row."""


def table_of(
    title: str,
    headers: Sequence[Header | str],
    columns: Iterable[Column | str],
    rows: Iterable[Iterable[Value]],
    notes: Iterable[str] = (),
) -> Table:
    """Return a table whose rows have a value for each header, then a value for each column.

    A header, or a column of texts, may be given by its heading alone. In a column of numbers, a value may be a
    float, or None for an unknown number.
    """
    columns = list(columns)
    table_rows = []
    for first, *others in rows:
        name, cell = str(first), ""
        if isinstance(first, CellRow):
            name, cell = first.name, first.cell
        elif headers[0] == OF_CELLS:
            cell = name
        ends = len(headers) - 1
        texts = (name, *map(str, others[:ends]))
        # Surplus values of a row are ignored.
        cells = map(_cell, others[ends:], columns)
        table_rows.append(Row(texts, tuple(cells), cell=cell))
    return Table(
        title,
        tuple(map(_header, headers)),
        tuple(map(_column, columns)),
        tuple(table_rows),
        tuple(notes),
    )


def _header(header: Header | str) -> Header:
    return Header(header) if isinstance(header, str) else header


def _column(column: Column | str) -> Column:
    return Column(column) if isinstance(column, str) else column


def _cell(value: Value, column: Column | str) -> Cell:
    if isinstance(value, float | int) or (value is None and isinstance(column, Column)):
        return Estimate(value=value)
    return value.name if isinstance(value, CellRow) else value
