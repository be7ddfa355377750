"""Rendering of tables as HTML, for reports (with a style sheet) and for notebooks (without)."""

from __future__ import annotations

import html
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from sentbed_report.formatting import share
from sentbed_report.page_template import page_template
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.shown import shown
from sentbed_report.tables.table import (
    Bars,
    Cell,
    DrawnInterval,
    Link,
    Row,
    Table,
    grouped_headings,
    legend,
    plain_text,
)

if TYPE_CHECKING:
    from jinja2 import Template

_PLACES: dict[int | None, str] = {1: "<b>{}</b>", 2: "<u>{}</u>", None: "{}"}

LONG = 30
"""Maximum number of rows of a table that a page shows whole; a longer table scrolls in a box."""


def to_html(table: Table) -> str:
    """Return a table and its notes as HTML; all texts are escaped."""
    has_bars = False
    longest = 0.0
    for row in table.rows:
        for cell in row.cells:
            if isinstance(cell, Bars):
                has_bars = True
                for _, share in cell.shares:
                    longest = max(longest, share)

    def content(row: Row, index: int) -> str:
        cell, column = row.cells[index], table.columns[index]
        if isinstance(cell, Bars):
            return _bars(cell, longest, index)
        address = ""
        if column.address and row.cell:
            address = f"{column.address}#second={quote(row.cell)}"
        return cell_html(cell, column, address)

    return _template().render(
        table=table,
        groups=grouped_headings(table.columns),
        legend=list(_legend(table)),
        content=content,
        has_bars=has_bars,
        sort_key=sort_key,
        is_number=lambda cell: isinstance(cell, Estimate),
        is_long=len(table.rows) > LONG,
    )


def _legend(table: Table) -> Iterator[str]:
    yield from legend(table, "Bold", "underlined")
    if any(column.address for column in table.columns):
        yield "A coloured number leads to the items behind it."


@cache
def _template() -> Template:
    return page_template("sentbed_report.tables", "table.html.j2")


def sort_key(cell: Cell) -> float | None:
    """Return the number by which a page sorts rows; None if the cell has no finite number."""
    if isinstance(cell, Estimate) and cell.is_finite:
        return cell.value
    return None


def cell_html(
    cell: Cell,
    column: Column,
    address: str = "",
) -> str:
    """Return the content of a cell as HTML; `address` is the page to which a number links."""
    if isinstance(cell, Link):
        text = html.escape(cell.text)
        if cell.address:
            text = f'<a href="{html.escape(cell.address)}">{text}</a>'
        if cell.kind:
            text = f'<span class="{cell.kind}">{text}</span>'
        return text
    if isinstance(cell, Estimate):
        return _estimate_html(cell, column, address)
    if isinstance(cell, DrawnInterval):
        return _interval_html(cell)
    if not cell:
        return '<span class="none">–</span>'
    return html.escape(plain_text(cell))


def _estimate_html(
    estimate: Estimate,
    column: Column,
    address: str,
) -> str:
    """Return a number with its spread, rank and marks, linked to `address` if that is not empty."""
    text = html.escape(column.text(estimate.value))
    if not estimate.is_finite:
        return f'<span class="none">{text}</span>'

    text = _PLACES[estimate.place].format(text)
    if address:
        text = f'<a href="{address}">{text}</a>'

    parts = shown(estimate, column)
    marks = ""
    if parts.rank:
        marks += f"<sup>{parts.rank}</sup>"
    if parts.sign:
        # The page's script makes the hint accessible by keyboard and to screen readers.
        style = f"mark {parts.kind}".rstrip()
        hint = html.escape(parts.hint)
        marks += f'<span class="{style}" title="{hint}">{parts.sign}</span>'
    if parts.spread:
        marks = f"<small>{parts.spread}{marks}</small>"
    below = [f"<small>{html.escape(line)}</small>" for line in parts.below]
    return "".join([text, marks, *below])


def _interval_html(drawn: DrawnInterval) -> str:
    """Return a dot with its interval as an element that is as wide as its column."""
    centre = _percent(drawn, drawn.dot.value)
    dot = f'<circle cx="{centre}" cy="8" r="4.5"/>'
    best = _percent(drawn, drawn.best)
    line = f'<line class="at" x1="{best}" x2="{best}" y1="-6" y2="34"/>'
    if drawn.text:
        low = _percent(drawn, drawn.dot.low)
        high = _percent(drawn, drawn.dot.high)
        line += f'<line x1="{low}" x2="{high}" y1="8" y2="8"/>'
    label = html.escape(drawn.text)
    return f'<svg class="dot" role="img" aria-label="{label}">{line}{dot}</svg>'


def _percent(drawn: DrawnInterval, value: float) -> str:
    """Return where a number stands in the width of the column, in percent with one decimal."""
    return f"{drawn.place(value):.1f}%"


def _bars(
    bars: Bars,
    longest: float,
    index: int,
) -> str:
    """Return bars as HTML, in proportion to the longest bar of the table; `index` is the index of the column."""
    items = []
    for label, part in bars.shares:
        width = 100 * part / (longest or 1)
        items.append(
            f'<li><span class="label">{html.escape(label)}</span><span class="track">'
            f'<span style="width:{width:.2f}%"></span></span><span class="share">{share(part)}</span></li>'
        )
    return f'<ol class="bars c{index % 6}">{"".join(items)}</ol>'
