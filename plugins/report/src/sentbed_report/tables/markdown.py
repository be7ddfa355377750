"""Rendering of tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Cell, Link, Table, legend, texts_of

_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$#]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that Markdown may treat as markup within a line. Underscores within a word are not markup."""

_PLACES = {1: "**{}**", 2: "*{}*", None: "{}"}


def escape(text: str) -> str:
    """Return a text as one line, escaped for Markdown, including the cells of tables."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


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
    """Return a table as Markdown without its title and notes; columns with an estimate are right-aligned."""
    headings = []
    for index in table.shown_headers:
        header = table.headers[index]
        headings.append(escape(header.name))

    numbers = []
    for index, column in enumerate(table.columns):
        cells = [row.cells[index] for row in table.rows]
        if any(isinstance(cell, Estimate) for cell in cells):
            numbers.append(len(headings))
        headings.append(escape(column.full_heading))

    rows = []
    for row in table.rows:
        texts = texts_of(table, row, _PLACES)
        line = list(map(escape, table.title_of(row)))
        line += map(_cell, row.cells, texts)
        rows.append(line)
    return markdown_table(headings, rows, numbers)


def _cell(cell: Cell, text: str) -> str:
    """Return a cell whose text is `text`: a number as it is, a link to its address, escaped other text."""
    if isinstance(cell, Estimate):
        return text
    if isinstance(cell, Link) and cell.address:
        return f"[{escape(text)}](<{cell.address}>)"
    return escape(text)


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
    """Return a text as a code block; the fence of the block is longer than any fence in the text."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
