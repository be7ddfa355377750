"""`Table`: rows of estimates and texts, independent of the format in which they are rendered."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

import attrs

from sentbed_report.dots import Dot
from sentbed_report.formatting import SIGNS, interval_text, share
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import DEGENERATE, Estimate, Place
from sentbed_report.tables.shown import shown


@attrs.frozen
class Link:
    """A text with a link, such as the status of a run with a link to its report."""

    text: str
    address: str
    """Target of the link, relative to the report; empty for a text without a link."""
    kind: str = ""
    """CSS class of the text."""


@attrs.frozen
class Bars:
    """Labels, each with a share in [0, 1]. A page draws the shares as bars."""

    shares: tuple[tuple[str, float], ...]


@attrs.frozen
class DrawnInterval:
    """A dot with its interval, which a page draws between the limits `first` and `last` of its column."""

    dot: Dot
    best: float
    """Number at which a vertical line stands."""
    first: float
    last: float

    def place(self, value: float) -> float:
        """Return where a value stands, in per cent of the width; values beyond the limits stand at the ends."""
        width = self.last - self.first
        if not math.isfinite(width) or width == 0:
            return 50.0
        share = (value - self.first) / width
        return 4 + 92 * min(1.0, max(0.0, share))

    @property
    def text(self) -> str:
        """Interval of the difference from the best, such as `−1.20 to 0.30`; empty for a dot without interval."""
        if math.isnan(self.dot.low):
            return ""
        return interval_text((self.dot.low, self.dot.high))


Cell: TypeAlias = Estimate | Link | Bars | DrawnInterval | str | None
"""Content of a table's cell: a number, a link, bars, a drawn interval, a text, or nothing."""


def plain_text(cell: Link | Bars | DrawnInterval | str | None) -> str:
    """Return a cell that is no number as text."""
    if isinstance(cell, Link | DrawnInterval):
        return cell.text or "–"
    if isinstance(cell, Bars):
        return ", ".join(f"{label} {share(part)}" for label, part in cell.shares)
    return cell or "–"


def texts_of(
    table: Table,
    row: Row,
    places: Mapping[int | None, str],
) -> list[str]:
    """Return the cells of a row as text; `places` are the format's marks for the best and second best number."""
    texts = []
    for cell, column in zip(row.cells, table.columns, strict=True):
        if isinstance(cell, Estimate):
            texts.append(shown(cell, column).one_line(places[cell.place]))
        else:
            texts.append(plain_text(cell))
    return texts


@attrs.frozen
class Header:
    """A leading column of texts that identify the rows, such as an axis of the study."""

    name: str
    shown: bool = True
    """Whether formats for readers show the column; CSV and JSON always have it."""


@attrs.frozen
class Row:
    """A row of a table."""

    headers: tuple[str, ...]
    """Texts that identify the row, one for each header of the table."""
    cells: tuple[Cell, ...]
    """Cells, one for each column of the table."""
    tags: tuple[str, ...] = ()
    """Remarks on the row, such as `baseline`."""
    cell: str = ""
    """Name of the study's cell, by which pages filter rows; empty if the row is not about one cell."""
    is_reference: bool = False
    """Whether the row has published numbers of another system."""
    tone: str = ""
    """How a page shows the row: `best`, `alike` in the same tone, or `worse` in a paler one."""


@attrs.frozen
class Table:
    """A table with its notes. Each format adds a legend of its marks."""

    title: str
    headers: tuple[Header, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    """Sentences on the numbers, printed below the table."""
    name: str = ""
    """Name of the table's files; empty for a table without files."""
    baseline: str = ""
    """Name of the row with which the other rows are compared."""
    is_complete: bool = True
    """Whether all rows have finished. If not, the best number of a column is the best of the finished rows."""
    ranked_within: tuple[str, ...] | None = None
    """Axes on which rows must have equal labels to be ranked together; `()` if all rows are ranked together,
    None if there are no ranks."""
    study: str = ""
    """Name of the study. LaTeX labels begin with it, so that tables of two studies have different labels."""
    is_one_score: bool = False
    """Whether all columns have the same score, so that places and ranks are among all numbers of the table."""

    @property
    def header_names(self) -> list[str]:
        """Names of all headers."""
        return [header.name for header in self.headers]

    @property
    def shown_headers(self) -> list[int]:
        """Indices of the headers that are shown to readers."""
        return [index for index, header in enumerate(self.headers) if header.shown]

    def numbers(self) -> Iterator[tuple[Row, Column, Estimate]]:
        """Yield each number with its row and column."""
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                if isinstance(cell, Estimate):
                    yield row, column, cell

    def title_of(self, row: Row) -> list[str]:
        """Return the texts that readers see before the numbers of a row; its tags follow the last text."""
        texts = [row.headers[index] for index in self.shown_headers]
        if row.tags:
            texts[-1] = f"{texts[-1]} ({'; '.join(row.tags)})".lstrip()
        return texts


def legend(
    table: Table,
    best: str,
    second: str = "",
) -> Iterator[str]:
    """Yield sentences that explain the marks of a table.

    `best` and `second` are the names of the format's marks for the best and the second best number.
    """
    places: set[Place | None] = set()
    has_ranks = False
    has_signs = False
    for _, _, estimate in table.numbers():
        places.add(estimate.place)
        if estimate.rank is not None:
            has_ranks = True
        if estimate.judged is not None and estimate.judged.significant:
            has_signs = True

    compared = "a column"
    if table.is_one_score:
        compared = "the table"
    if 1 in places:
        if 2 not in places:
            second = ""
        yield _legend_of_best(table, best, second, compared)

    if has_ranks:
        among = ""
        if table.ranked_within:
            among = f", among rows of the same {' and '.join(table.ranked_within)}"
        yield f"Superscripts: the rank in {compared}{among}; equal numbers share a rank."

    if has_signs:
        parts = []
        for level, sign in reversed(SIGNS):
            parts.append(f"{sign} p < {level}")
        if table.baseline:
            parts.append(f"against {table.baseline}")
        yield f"{', '.join(parts)}."

    yield from _degenerate_legend(table)


def _legend_of_best(
    table: Table,
    best: str,
    second: str,
    compared: str,
) -> str:
    """Return what the marks `best` and `second` stand for; `compared` is what they are the best of."""
    also = ""
    if second:
        also = f"; {second}: the second best"
    among = ""
    if not table.is_complete:
        among = ", of what has finished"
    return f"{best}: the best of {compared}{also}{among}."


def _degenerate_legend(table: Table) -> Iterator[str]:
    """Yield a sentence for each reason why numbers are degenerate, with their rows and columns."""
    headings_of_reasons: dict[str, defaultdict[str, list[str]]] = {}
    for row, column, estimate in table.numbers():
        reason = estimate.degenerate
        if not reason:
            continue
        name = row.cell or ", ".join(row.headers)
        headings_of_rows = headings_of_reasons.setdefault(reason, defaultdict(list))
        headings_of_rows[name].append(column.heading)

    for reason, headings_of_rows in headings_of_reasons.items():
        places = []
        for name, headings in headings_of_rows.items():
            columns = ", ".join(headings)
            places.append(f"{name}: {columns}")
        where = "; ".join(places)
        yield f"{DEGENERATE} degenerate, neither ranked nor tested ({where}): {reason}."


def grouped_headings(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Return (heading, number of columns) of each group of adjacent columns; empty if no column has a group."""
    groups = []
    for heading, of_group in groupby(columns, attrgetter("group")):
        groups.append((heading, len(list(of_group))))
    if not any(heading for heading, _ in groups):
        return []
    return groups
