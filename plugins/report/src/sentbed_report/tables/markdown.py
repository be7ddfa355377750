"""Rendering of tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate, pieces_of
from sentbed_report.tables.table import Cell, Link, Table, legend, plain_text

_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$#]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that Markdown may treat as markup within a line; underscores inside words are not markup."""

_PLACES = {1: "**{}**", 2: "*{}*", None: "{}"}


def escape(text: str) -> str:
    """Return text in one line, escaped for Markdown, also for the cells of tables."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


def to_markdown(table: Table) -> str:
    """Return a table with its notes; the best value is bold, the second best in italics."""
    blocks = []
    if table.title:
        blocks.append(f"**{escape(table.title)}**")
    blocks.append(_lines(table))
    blocks += [
        escape(note) for note in (*table.notes, *legend(table, "Bold", "italics"))
    ]
    return "\n\n".join(blocks) + "\n"


def _lines(table: Table) -> str:
    headers = [escape(table.headers[place].name) for place in table.shown_headers]
    headings = [escape(column.full_heading) for column in table.columns]
    rows = []
    for row in table.rows:
        titles = [escape(text) for text in table.title_of(row)]
        cells = [
            _cell(cell, column)
            for cell, column in zip(row.cells, table.columns, strict=True)
        ]
        rows.append([*titles, *cells])
    numbers = [
        len(headers) + place
        for place in range(len(table.columns))
        if is_of_numbers(table, place)
    ]
    return markdown_table([*headers, *headings], rows, numbers)


def is_of_numbers(table: Table, place: int) -> bool:
    """Whether a column has numbers rather than text."""
    return any(isinstance(row.cells[place], Estimate) for row in table.rows)


def _cell(cell: Cell, column: Column) -> str:
    if isinstance(cell, Estimate):
        return cell_text(cell, column, _PLACES)
    if isinstance(cell, Link) and cell.address:
        return f"[{escape(cell.text)}](<{cell.address}>)"
    return escape(plain_text(cell))


def cell_text(estimate: Estimate, column: Column, places: dict[int | None, str]) -> str:
    """Return an estimate in one line; `places` are the format's marks for best and second best."""
    text = places[estimate.place].format(column.text(estimate.value))
    for piece in pieces_of(estimate, column, "beside"):
        text += f" {piece.text}"
    for piece in pieces_of(estimate, column, "mark"):
        text += piece.text
    below = [piece.labelled for piece in pieces_of(estimate, column, "below")]
    return ", ".join([text, *below])


def markdown_table(
    heading: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int]
) -> str:
    """Return a table of texts; the columns in `numbers` are right-aligned."""
    rule = ["---"] * len(heading)
    for place in numbers:
        rule[place] = "--:"
    lines = [f"| {' | '.join(cells)} |" for cells in (heading, rule, *rows)]
    return "\n".join(lines)


def fenced(text: str, language: str = "text") -> str:
    """Return a code block, with a fence longer than any in the text."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
