"""Rendering of tables as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed_report.tables.table import Table, legend, texts_of

_PLACES = {1: "{}*", 2: "{}", None: "{}"}


def to_text(table: Table) -> str:
    """Return a table as text with aligned columns and its notes; `*` marks the best number of a column."""
    headers = [table.headers[index].name for index in table.shown_headers]
    rows = [[*headers, *(column.heading for column in table.columns)]]
    for row in table.rows:
        rows.append([*table.title_of(row), *texts_of(table, row, _PLACES)])

    lines = []
    if table.title:
        lines.append(table.title)
    lines += aligned(rows, len(headers))
    lines += table.notes
    lines += legend(table, "*")
    return "\n".join(lines) + "\n"


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Yield rows as lines: the first `left` columns are left-aligned, the other columns right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = []
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            if index < left:
                cells.append(cell.ljust(width))
            else:
                cells.append(cell.rjust(width))
        yield "  ".join(cells).rstrip()
