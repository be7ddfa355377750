"""Data of a study: its axes, cells and runs, from which tables, plots and reports are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs
from sentbed.protocols import Score

from sentbed_report.degenerate_scores import without_degenerate_values
from sentbed_report.study.study_settings import StudySettings

CellStatus: TypeAlias = Literal[
    "waiting", "running", "finished", "failed", "interrupted"
]

RUNS = Path("runs")
"""Subdirectory of a study for its runs, each in a directory named by its key."""

_WORST_FIRST: tuple[CellStatus, ...] = ("failed", "interrupted", "running", "waiting")


@attrs.frozen
class AxisInfo:
    """Axis of a study: an experimental factor, such as the learning rate, with its labels (levels)."""

    name: str
    labels: tuple[str, ...]
    numbers: tuple[float, ...] | None = None
    """Number that each label sets in the recipe, for plots; None if any label sets no number or several."""


@attrs.frozen(eq=False, repr=False)
class CellRun:
    """Run of a cell under one seed, and under one prompt in a study with `prompts`."""

    cell: str
    """Name of the cell, which consists of its labels."""
    seed: int
    status: CellStatus = "waiting"
    directory: Path | None = None
    """Run directory, relative to the study's directory; None if the run has not begun."""
    error: str = ""
    """Error message of a failed run; empty for other runs."""
    seconds: float | None = None
    """Duration of the run in seconds; None if it was not recorded."""
    scores: tuple[Score, ...] = attrs.field(
        default=(), converter=without_degenerate_values
    )
    """Scores, each with its items if they were saved; empty unless the run has finished. A degenerate score has
    the value NaN."""
    record: Mapping[str, Any] = attrs.field(factory=dict)
    """Content of the run's `report.json`: `stages` has its learning curves."""
    evaluations: tuple[str, ...] | None = None
    """Keys of the evaluations that made the scores (see `read_run`); None if the run itself made all of them."""
    prompt: str = ""
    """Label of the run's prompt; empty in a study without `prompts`."""
    key: str = ""
    """Hash of everything in the recipe that determines the run's weights; empty outside of a study."""

    def __repr__(self) -> str:
        return f"<run {self}: {self.status}, {len(self.scores)} scores>"

    def __str__(self) -> str:
        if self.prompt:
            return f"{self.cell}, prompt {self.prompt}, seed {self.seed}"
        return f"{self.cell}, seed {self.seed}"


@attrs.frozen(eq=False)
class CellInfo:
    """Cell of a study: a combination of labels, one per axis, that is run under several seeds."""

    name: str
    labels: Mapping[str, str]
    """Axis -> label of the cell."""
    runs: tuple[CellRun, ...]
    """Runs, one per seed; in a study with `prompts`, one per prompt and seed."""
    differences: tuple[str, ...] = ()
    """Differences from the recipe of the baseline, where the cell has no labels: `PATH: BEFORE -> AFTER`."""
    confirmation: tuple[CellRun, ...] = ()
    """Runs with fresh seeds, if this is the chosen cell; they are in no table. See `Decide.confirm`."""

    @property
    def status(self) -> CellStatus:
        """The worst status of the runs."""
        statuses = {run.status for run in self.runs}
        for status in _WORST_FIRST:
            if status in statuses:
                return status
        return "finished"

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the runs, each once."""
        return tuple(dict.fromkeys(run.seed for run in self.runs))

    @property
    def finished_seeds(self) -> tuple[int, ...]:
        """Seeds whose runs have all finished, under every prompt."""
        unfinished = set()
        for run in self.runs:
            if run.status != "finished":
                unfinished.add(run.seed)
        return tuple(seed for seed in self.seeds if seed not in unfinished)


def with_runs(
    cells: Iterable[CellInfo], change: Callable[[CellRun], CellRun]
) -> tuple[CellInfo, ...]:
    """Return cells with `change` applied to each of their runs, including the runs with fresh seeds."""
    changed = []
    for cell in cells:
        runs = tuple(map(change, cell.runs))
        confirmation = tuple(map(change, cell.confirmation))
        changed.append(attrs.evolve(cell, runs=runs, confirmation=confirmation))
    return tuple(changed)


@attrs.frozen(eq=False, repr=False)
class StudyData(StudySettings):
    """Data of a study, or of several runs that are treated as a study."""

    name: str
    axes: tuple[AxisInfo, ...]
    """Axes; empty for runs that are treated as a study."""
    cells: tuple[CellInfo, ...]
    """Cells in the recipe's order."""
    baseline: str | None
    """Name of the cell with which others are compared; None without a baseline."""
    seeds: tuple[int, ...]
    excluded: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Combinations of labels that cannot be run and are left out: name of the cell, and the reasons."""
    recipe: str = ""
    """The study's recipe, as TOML."""
    directory: Path | None = None
    """Directory of the study, to which the directories of its runs are relative."""
    prompts: tuple[str, ...] = ()
    """Labels of the prompts; every cell is run with each of them. Empty without `[study] prompts`."""

    def __repr__(self) -> str:
        return f"<study {self.name}: {len(self.cells)} cells, {self.finished} of {self.total} runs finished>"

    @property
    def runs(self) -> tuple[CellRun, ...]:
        """Runs of all cells, without the runs with fresh seeds."""
        return tuple(chain.from_iterable(cell.runs for cell in self.cells))

    @property
    def runs_and_fresh_runs(self) -> tuple[CellRun, ...]:
        """Runs of all cells, then the runs with fresh seeds."""
        fresh = chain.from_iterable(cell.confirmation for cell in self.cells)
        return (*self.runs, *fresh)

    @property
    def finished_runs(self) -> list[CellRun]:
        """Finished runs of all cells, without the runs with fresh seeds."""
        return [run for run in self.runs if run.status == "finished"]

    @property
    def finished(self) -> int:
        """Number of finished runs, without those with fresh seeds."""
        return len(self.finished_runs)

    @property
    def total(self) -> int:
        """Number of runs, without those with fresh seeds."""
        return len(self.runs)
