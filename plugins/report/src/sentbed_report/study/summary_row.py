"""`SummaryRow`: a row of a study's tables, of a cell or of one of its encoders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from sentbed_report.formatting import count
from sentbed_report.study.study_data import CellStatus
from sentbed_report.tables.estimate import Estimate

RowKey: TypeAlias = tuple[str, str]
"""Cell and encoder: a row of a table."""


@attrs.frozen
class SummaryRow:
    """Row of a cell, or of one of its encoders if there are several."""

    cell: str
    encoder: str
    """Name of the encoder; empty if the cell has no scores."""
    name: str
    """Name in sentences."""
    labels: Mapping[str, str]
    """Axis -> label."""
    status: CellStatus
    """Status; `finished` if the runs of all seeds are."""
    seeds: tuple[int, ...]
    """Seeds whose run has finished."""
    total: int
    """Planned number of seeds."""
    error: str
    """Error of the first run that failed."""
    cells: tuple[Estimate, ...]
    """Scores, one per column."""
    counted: bool = False
    """Whether to say how many seeds it has although it has finished: other rows have more, or fewer."""
    stopped: bool = False
    """Whether its cell was stopped, so that its mean is over other seeds; see `StudyData.stopped`."""

    @property
    def key(self) -> RowKey:
        """Cell and encoder."""
        return self.cell, self.encoder

    @property
    def scored(self) -> tuple[int, ...]:
        """Seeds with a score in this table."""
        return tuple(dict.fromkeys(seed for cell in self.cells for seed in cell.seeds))

    @property
    def remark(self) -> str:
        """Status of an unfinished row; for a finished one, its seed count if rows differ in it."""
        if self.status != "finished":
            if not self.seeds:
                return self.status
            return f"{self.status}, {len(self.seeds)} of {self.total}"
        seeds = count(len(self.scored), "seed")
        if self.stopped:
            return f"stopped, {seeds}"
        return seeds if self.counted else ""
