"""`Table`: rows of estimates and texts, independent of the format in which they are rendered."""

from __future__ import annotations

import math
from typing import TypeAlias

import attrs

from sentbed_report.dots import Dot
from sentbed_report.formatting import interval_text
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate


@attrs.frozen
class Link:
    """A text with a link, such as the status of a run with a link to its report."""

    text: str
    address: str
    """Target of the link, relative to the report; empty for a text without a link."""
    kind: str = ""
    """CSS class of the text."""


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


Cell: TypeAlias = Estimate | Link | DrawnInterval | str | None
"""Content of a table's cell: a number, a link, a drawn interval, a text, or nothing."""


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
    study: str = ""
    """Name of the study. LaTeX labels begin with it, so that tables of two studies have different labels."""
