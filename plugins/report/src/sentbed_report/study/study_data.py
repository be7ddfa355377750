"""What a study has found, for tables, plots and reports; nothing here knows how a cell was run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs
from sentbed.protocols import Score

from sentbed_report.study.published import Published

CellStatus: TypeAlias = Literal["waiting", "running", "finished", "failed", "interrupted"]


@attrs.frozen
class AxisInfo:
    """An axis as tables and plots see it."""

    name: str
    labels: tuple[str, ...]
    numbers: tuple[float, ...] | None = None
    """The numbers behind the labels, where each label sets one number: such an axis can be plotted."""


@attrs.frozen(eq=False)
class CellRun:
    """One cell under one seed."""

    cell: str
    """Name of the cell: its labels, without the seed."""
    seed: int
    status: CellStatus
    directory: Path | None = None
    """The run directory, relative to that of the study."""
    error: str = ""
    """Why it failed."""
    seconds: float | None = None
    scores: tuple[Score, ...] = ()
    """With their items, where the run keeps them; none unless it has finished."""
    record: Mapping[str, Any] = attrs.field(factory=dict)
    """`report.json` of the run: `stages` has its learning curves, `ranking` that of a search."""


@attrs.frozen(eq=False)
class CellInfo:
    """One combination of labels."""

    name: str
    labels: Mapping[str, str]
    """Axis -> label."""
    runs: tuple[CellRun, ...]
    """One a seed."""
    differences: tuple[str, ...] = ()
    """`PATH: BEFORE -> AFTER`, in what its recipe differs from the baseline's, or from the first cell's."""


@attrs.frozen(eq=False)
class StudyData:
    """A study, or several runs that are looked at as one."""

    name: str
    axes: tuple[AxisInfo, ...]
    """None where it is made of any runs."""
    cells: tuple[CellInfo, ...]
    """In the order of the recipe."""
    baseline: str | None
    """Name of the cell that others are compared with."""
    seeds: tuple[int, ...]
    excluded: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Name of a cell that cannot work, and why."""
    expected: Mapping[str, Published] = attrs.field(factory=dict)
    """Name of a published table -> what it says; see `StudyTable.expected`."""
    order: tuple[str, ...] = ()
    """Tasks in the order of columns that the recipe asks for."""
    recipe: str = ""
    """The study's recipe, as TOML."""
    directory: Path | None = None
    """That of the study, which the runs' directories are relative to."""

    @property
    def finished(self) -> int:
        """How many runs have finished."""
        return sum(run.status == "finished" for cell in self.cells for run in cell.runs)

    @property
    def total(self) -> int:
        """How many runs there are."""
        return sum(len(cell.runs) for cell in self.cells)
