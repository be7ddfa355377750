"""Cells of tables as text: what all formats for readers show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from urllib.parse import quote

import attrs

from sentbed_report.formatting import (
    MISSING,
    expected_digits,
    interval_text,
    number,
    probability,
    sign_of,
    signed,
)
from sentbed_report.statistics.difference import Judged
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import DEGENERATE, Estimate
from sentbed_report.tables.table import Cell, DrawnInterval, Link, Row, Table

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@attrs.frozen
class Shown:
    """A cell as text."""

    text: str
    """The number, or the text of a cell without a number."""
    is_number: bool = False
    place: int = 0
    """1 for the best number of a column, 2 for the second best, 0 for others."""
    spread: str = ""
    """Standard deviation, such as `± 0.71`; empty if it is unknown."""
    marks: str = ""
    """Rank in superscript, then † or ‡ for a significant difference or ◇ for a degenerate number."""
    hint: str = ""
    """What the marks stand for, for a tooltip."""
    kind: str = ""
    """Class of the cell in a page, such as `better` or `worse` of a significant difference."""
    below: tuple[str, ...] = ()
    """Further quantities, each with a line of its own: published numbers and the interval."""
    address: str = ""
    """Target of a link; empty for a cell without a link."""
    sort_key: float | None = None
    """Number by which a page sorts rows; None without a finite number."""
    drawn: DrawnInterval | None = None
    """Interval that a page draws in place of the text."""

    def line(self, text: str) -> str:
        """Return the cell as one line, with `text`, the number as a format marks it, in place of the number."""
        first = f"{text} {self.spread}".rstrip() + self.marks
        return ", ".join([first, *self.below])


def shown_cells(table: Table, row: Row) -> list[Shown]:
    """Return the cells of a row as text."""
    cells = []
    for cell, column in zip(row.cells, table.columns, strict=True):
        cells.append(_shown(cell, column, row))
    return cells


def row_title(table: Table, row: Row) -> list[str]:
    """Return the texts that stand before the cells of a row; its tags follow the last text."""
    texts = []
    for header, text in zip(table.headers, row.headers, strict=True):
        if header.shown:
            texts.append(text)
    if row.tags:
        texts[-1] = f"{texts[-1]} ({'; '.join(row.tags)})".lstrip()
    return texts


def headings(table: Table) -> tuple[list[str], list[str]]:
    """Return the headings of the texts that stand before the cells, and those of the cells."""
    before = [header.name for header in table.headers if header.shown]
    return before, [column.heading for column in table.columns]


def legend(
    table: Table,
    best: str,
    second: str = "",
) -> Iterator[str]:
    """Yield sentences that explain the marks of a table.

    `best` and `second` are the names of the format's marks for the best and the second best number.
    """
    places = set()
    reasons: dict[str, None] = {}
    signs = False
    for row in table.rows:
        for cell in row.cells:
            if not isinstance(cell, Estimate):
                continue
            places.add(cell.place)
            reasons[cell.degenerate] = None
            if cell.judged is not None and cell.judged.significant:
                signs = True

    if 1 in places and 2 in places and second:
        yield f"{best}: the best; {second}: the second best."
    elif 1 in places:
        yield f"{best}: the best."
    if signs:
        yield "† p < 0.05, ‡ p < 0.01."
    for reason in filter(None, reasons):
        yield f"{DEGENERATE} degenerate, neither ranked nor tested: {reason}."


def _shown(cell: Cell, column: Column, row: Row) -> Shown:
    if isinstance(cell, Estimate):
        return _shown_estimate(cell, column, row)
    if isinstance(cell, DrawnInterval):
        return Shown(cell.text or MISSING, drawn=cell)
    if isinstance(cell, Link):
        return Shown(cell.text, kind=cell.kind, address=cell.address)
    return Shown(cell or MISSING)


def _shown_estimate(estimate: Estimate, column: Column, row: Row) -> Shown:
    text = column.text(estimate.value)
    if not estimate.is_finite and not estimate.degenerate:
        return Shown(text, is_number=True, below=tuple(_below(estimate, column)))

    spread = marks = hint = kind = address = ""
    if estimate.std is not None and math.isfinite(estimate.std):
        spread = f"± {number(estimate.std, column.digits)}"
    if estimate.rank is not None:
        marks = str(estimate.rank).translate(_SUPERSCRIPTS)
    if estimate.degenerate:
        marks += DEGENERATE
        hint = f"degenerate: {estimate.degenerate}"
    elif estimate.judged is not None and estimate.judged.significant:
        marks += sign_of(estimate.judged.corrected)
        hint = _comparison(estimate.judged, column)
        kind = _kind(estimate.judged, column)
    if column.address and row.cell:
        address = f"{column.address}#second={quote(row.cell)}"
    sort_key = None
    if estimate.is_finite:
        sort_key = estimate.value
    return Shown(
        text,
        is_number=True,
        place=estimate.place or 0,
        spread=spread,
        marks=marks,
        hint=hint,
        kind=kind,
        below=tuple(_below(estimate, column)),
        address=address,
        sort_key=sort_key,
    )


def _kind(judged: Judged, column: Column) -> str:
    """Return whether a significant difference is `better` or `worse`; empty if neither is known."""
    if judged.difference is None or not column.ranked:
        return ""
    is_lower = judged.difference < 0
    if is_lower == column.lower:
        return "better"
    return "worse"


def _comparison(judged: Judged, column: Column) -> str:
    """Return the tooltip of a significance mark: difference, interval, p-value and what varied."""
    lines = [f"{signed(judged.difference, column.digits)} against {column.reference}"]
    if judged.interval is not None:
        lines.append(f"95 % interval {interval_text(judged.interval, column.digits)}")
    if judged.corrected is not None:
        lines.append(f"p after Holm's correction {probability(judged.corrected)}")
    lines.append(f"over {judged.basis}")
    return "\n".join(lines)


def _below(estimate: Estimate, column: Column) -> Iterator[str]:
    for row in estimate.published:
        digits = expected_digits(row)
        text = f"published {number(row.value, digits)}"
        if row.difference is not None:
            text += f" ({signed(row.difference, digits)})"
        yield text
    if estimate.interval is not None:
        yield interval_text(estimate.interval, column.digits)
