"""`SummaryRow`: a row of a study's tables, for a cell or for one of its encoders."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TypeAlias

import attrs

from sentbed_report.formatting import count
from sentbed_report.study.study_data import CellStatus
from sentbed_report.tables.estimate import Estimate

RowKey: TypeAlias = tuple[str, str]
"""Cell and encoder, which identify a row of a table."""


@attrs.frozen
class SummaryRow:
    """Row of a cell, or of one of its encoders if there are several."""

    cell: str
    encoder: str
    """Name of the encoder; empty if the cell has no scores."""
    name: str
    """Name of the row in sentences: `CELL`, or `CELL/ENCODER` if the cell has several."""
    labels: Mapping[str, str]
    """Axis -> label."""
    status: CellStatus
    """Worst status of the cell's runs."""
    seeds: tuple[int, ...]
    """Seeds whose runs have finished."""
    total: int
    """Planned number of seeds."""
    error: str
    """Error of the first run that failed."""
    cells: tuple[Estimate, ...]
    """Scores, one per column."""
    counted: bool = False
    """Whether `remark` gives the number of seeds of a finished row, because the rows differ in it."""
    stopped: bool = False
    """Whether its cell was stopped, so its mean is over fewer seeds; see `StudyData.stopped`."""

    @property
    def key(self) -> RowKey:
        """Cell and encoder."""
        return self.cell, self.encoder

    @property
    def scored(self) -> tuple[int, ...]:
        """Seeds with a score in this table."""
        seeds = chain.from_iterable(cell.seeds for cell in self.cells)
        return tuple(dict.fromkeys(seeds))

    @property
    def remark(self) -> str:
        """Status of an unfinished row; number of seeds of a finished row if the rows differ in it."""
        if self.status != "finished":
            if not self.seeds:
                return self.status
            return f"{self.status}, {len(self.seeds)} of {self.total}"
        seeds = count(len(self.scored), "seed")
        if self.stopped:
            return f"stopped, {seeds}"
        return seeds if self.counted else ""
