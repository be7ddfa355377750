"""Rendering of tables as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed_report.tables.shown import headings, legend, row_title, shown_cells
from sentbed_report.tables.table import Table

_PLACES = ("{}", "{}*", "{}")


def to_text(table: Table) -> str:
    """Return a table as text with aligned columns and its notes; `*` marks the best number of a column."""
    before, of_columns = headings(table)
    rows = [[*before, *of_columns]]
    for row in table.rows:
        texts = row_title(table, row)
        for cell in shown_cells(table, row):
            texts.append(cell.line(_PLACES[cell.place].format(cell.text)))
        rows.append(texts)

    lines = []
    if table.title:
        lines.append(table.title)
    lines += aligned(rows, len(before))
    lines += table.notes
    lines += legend(table, "*")
    return "\n".join(lines) + "\n"


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Yield rows as lines: the first `left` columns are left-aligned, the other columns right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells: list[str] = []
        for cell, width in zip(row, widths, strict=True):
            if len(cells) < left:
                cells.append(cell.ljust(width))
            else:
                cells.append(cell.rjust(width))
        yield "  ".join(cells).rstrip()
