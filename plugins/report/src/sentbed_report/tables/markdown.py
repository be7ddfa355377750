"""Rendering of tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sentbed_report.tables.shown import (
    Shown,
    headings,
    legend,
    row_title,
    shown_cells,
)
from sentbed_report.tables.table import Table

_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$#]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that Markdown may treat as markup within a line. Underscores within a word are not markup."""

_PLACES = ("{}", "**{}**", "*{}*")


def escape(text: str) -> str:
    """Return a text as one line, escaped for Markdown, including the cells of tables."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


def to_markdown(table: Table) -> str:
    """Return a table with its notes as Markdown; the best value is bold, the second best in italics."""
    heading, _ = headings(table)
    for column in table.columns:
        name = column.heading
        if column.group:
            name = f"{column.group}: {name}"
        heading.append(name)
    numbers = set()
    rows = []
    for row in table.rows:
        cells = shown_cells(table, row)
        line = list(map(escape, row_title(table, row)))
        for index, cell in enumerate(cells, start=len(line)):
            line.append(_cell(cell))
            if cell.is_number:
                numbers.add(index)
        rows.append(line)

    blocks = []
    if table.title:
        blocks.append(f"**{escape(table.title)}**")
    blocks.append(markdown_table(list(map(escape, heading)), rows, numbers))
    blocks += map(escape, table.notes)
    blocks += map(escape, legend(table, "Bold", "italics"))
    return "\n\n".join(blocks) + "\n"


def _cell(cell: Shown) -> str:
    if cell.is_number:
        return cell.line(_PLACES[cell.place].format(cell.text))
    if cell.address:
        return f"[{escape(cell.text)}](<{cell.address}>)"
    return escape(cell.text)


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
