"""Sections of a report: sentences, tables, figures and texts, the same for the page and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import attrs

from sentbed_report.figures.plot import Plot
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Cell, Header, Row, Table

OF_CELLS = "cell"
"""Header below which the name of a cell of the study stands, by which pages filter."""


@attrs.frozen
class Text:
    """A text that is shown as it is, such as a recipe."""

    text: str
    language: str = "text"
    title: str = ""


@attrs.frozen(eq=False)
class Section:
    """A part of a report. The page shows its title and summary, and the rest when it is opened."""

    title: str
    summary: str = ""
    """What it says, in a few words."""
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    """Sentences behind the tables."""
    plots: Sequence[Plot] = ()
    """Figures, which only the page has."""
    texts: Sequence[Text] = ()
    is_open: bool = False
    """Whether the page shows it from the beginning."""


@runtime_checkable
class CellRow(Protocol):
    """A cell of a study, or one of its encoders: what a row is of."""

    @property
    def name(self) -> str:
        """What readers see of it."""

    @property
    def cell(self) -> str:
        """Name of the cell."""


Value: TypeAlias = Cell | float | CellRow
"""What stands in a row of a table."""


def table_of(
    title: str,
    headers: Sequence[Header | str],
    columns: Iterable[Column | str],
    rows: Iterable[Iterable[Value]],
    notes: Iterable[str] = (),
) -> Table:
    """Return a table whose rows have a value for each header, then one for each column.

    A header and a column of texts may be what stands above them alone. In other columns a number may be its
    value alone, and None is a number that is not known.
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
        # Of a row with more values than columns, the last are left out.
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
