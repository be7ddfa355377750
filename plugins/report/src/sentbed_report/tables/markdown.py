"""Rendering of tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sentbed.errors import printable

from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate, pieces_of
from sentbed_report.tables.table import Cell, Link, Table, legend, plain_text

_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$#]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that Markdown may treat as markup within a line. Underscores within a word are not markup."""

_PLACES = {1: "**{}**", 2: "*{}*", None: "{}"}


def escape(text: str) -> str:
    """Return a text as one line, escaped for Markdown, including the cells of tables, and for terminals."""
    return _SPECIAL.sub(r"\\\g<0>", printable(" ".join(text.split())))


def to_markdown(table: Table) -> str:
    """Return a table with its notes as Markdown; the best value is bold, the second best in italics."""
    blocks = []
    if table.title:
        blocks.append(f"**{escape(table.title)}**")
    blocks.append(_lines(table))
    blocks += map(escape, table.notes)
    blocks += map(escape, legend(table, "Bold", "italics"))
    return "\n\n".join(blocks) + "\n"


def _lines(table: Table) -> str:
    headings = []
    numbers = []
    for index in table.shown_headers:
        headings.append(escape(table.headers[index].name))
    for index, column in enumerate(table.columns):
        if is_of_numbers(table, index):
            numbers.append(len(headings))
        headings.append(escape(column.full_heading))
    rows = []
    for row in table.rows:
        titles = map(escape, table.title_of(row))
        rows.append([*titles, *map(_cell, row.cells, table.columns)])
    return markdown_table(headings, rows, numbers)


def is_of_numbers(table: Table, index: int) -> bool:
    """Whether the column at `index` has numbers rather than texts."""
    return any(isinstance(row.cells[index], Estimate) for row in table.rows)


def _cell(cell: Cell, column: Column) -> str:
    if isinstance(cell, Estimate):
        return cell_text(cell, column, _PLACES)
    if isinstance(cell, Link) and cell.address:
        return f"[{escape(cell.text)}](<{cell.address}>)"
    return escape(plain_text(cell))


def cell_text(
    estimate: Estimate,
    column: Column,
    places: dict[int | None, str],
) -> str:
    """Return an estimate as one line; `places` are the format's marks for the best and second best number."""
    text = places[estimate.place].format(column.text(estimate.value))
    for piece in pieces_of(estimate, column, "beside"):
        text += f" {piece.text}"
    for piece in pieces_of(estimate, column, "mark"):
        text += piece.text
    below = [piece.labelled for piece in pieces_of(estimate, column, "below")]
    return ", ".join([text, *below])


def markdown_table(
    heading: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Iterable[int],
) -> str:
    """Return a Markdown table of texts; the columns at the indices `numbers` are right-aligned."""
    rule = ["---"] * len(heading)
    for index in numbers:
        rule[index] = "--:"
    lines = []
    for cells in (heading, rule, *rows):
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def fenced(text: str, language: str = "text") -> str:
    """Return a text as a code block; the fence of the block is longer than any fence in the text.

    Control characters are escaped, since the text may be an error of any library.
    """
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{printable(text.rstrip())}\n{fence}"
