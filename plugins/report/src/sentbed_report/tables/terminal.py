"""Rendering of tables as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed_report.tables.table import Table, legend, texts_of

_PLACES = {1: "{}*", 2: "{}", None: "{}"}


def to_text(table: Table) -> str:
    """Return a table as text with aligned columns and its notes; `*` marks the best number of a column."""
    headings = [table.headers[index].name for index in table.shown_headers]
    left = len(headings)
    for column in table.columns:
        headings.append(column.heading)

    rows = [headings]
    for row in table.rows:
        texts = list(table.title_of(row))
        texts += texts_of(table, row, _PLACES)
        rows.append(texts)

    lines = []
    if table.title:
        lines.append(table.title)
    lines += aligned(rows, left)
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
