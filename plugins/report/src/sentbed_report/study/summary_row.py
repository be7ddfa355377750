"""`SummaryRow`: a row of a study's tables, for a cell or for one of the cell's encoders."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TypeAlias

import attrs

from sentbed_report.study.study_data import CellStatus
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate

RowKey: TypeAlias = tuple[str, str]
"""Cell and encoder, which identify a row of a table."""

Pair: TypeAlias = tuple[RowKey, RowKey]
"""Two rows of a table; their difference is the score of the second minus that of the first."""


@attrs.define
class SummaryRow:
    """Row of a cell; if the cell has several encoders, row of one encoder."""

    cell: str
    encoder: str
    """Name of the encoder; empty if the cell has no scores in the table."""
    name: str
    """Name of the row in sentences: `CELL`, or `CELL/ENCODER` if the cell has several encoders."""
    labels: Mapping[str, str]
    """Axis -> label of the cell."""
    status: CellStatus
    """Worst status of the cell's runs."""
    error: str
    """Error message of the first run that failed; empty if none did."""
    cells: tuple[Estimate, ...]
    """One estimate per column."""
    remark: str = ""
    """Status of an unfinished row; for a finished row, its number of seeds if it is not the same in all rows."""

    @property
    def key(self) -> RowKey:
        """Cell and encoder."""
        return self.cell, self.encoder

    @property
    def scored(self) -> tuple[int, ...]:
        """Seeds with a score in any column of the table."""
        seeds = chain.from_iterable(cell.seeds for cell in self.cells)
        return tuple(dict.fromkeys(seeds))

    @property
    def why_not_compared(self) -> str:
        """Why the row is not compared with the others in the last column; empty if it is."""
        cell = self.cells[-1]
        if cell.value is None:
            return "it has no score"
        if self.status != "finished":
            return "it has not finished"
        if not cell.is_finite:
            return cell.degenerate or "its score is not finite"
        return ""

    def worth(self, index: int, column: Column, digits: int) -> float:
        """Return the number in a column, rounded to a number of decimals, and negated if lower is better."""
        value = round(self.cells[index].value or 0.0, digits)
        if column.lower:
            return -value
        return value
