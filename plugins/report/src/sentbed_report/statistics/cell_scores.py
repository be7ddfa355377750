"""`CellScores`: the scores of a cell in a column of a table, a run each, with their items."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.protocols import Score

from sentbed_report.statistics.sampling_error import ItemComponents, components_of_mean

if TYPE_CHECKING:
    from sentbed_common.item_statistics import Floats

Run: TypeAlias = tuple[int, str]
"""Seed and prompt of a run; the prompt is empty in a study without prompts."""

_SAME = 1e-6
"""Largest difference that is attributed to rounding between numbers read from files."""


@attrs.frozen(eq=False)
class CellScores:
    """Scores of a cell in a column of a table, a run each."""

    of_runs: Mapping[Run, tuple[Score, ...]]
    """Run -> its score of a task, or its scores of the tasks over which the column is a mean. The runs are those
    of each seed with each prompt."""

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the runs, in their order."""
        return tuple(dict.fromkeys(seed for seed, _ in self.of_runs))

    @cached_property
    def prompts(self) -> tuple[str, ...]:
        """Prompts of the runs, in their order."""
        return tuple(dict.fromkeys(prompt for _, prompt in self.of_runs))

    @cached_property
    def by_seed(self) -> dict[int, float]:
        """Seed -> mean score over the prompts, in the unit of the score."""
        values = {}
        for seed in self.seeds:
            of_seed = [self.value((seed, prompt)) for prompt in self.prompts]
            values[seed] = sum(of_seed) / len(of_seed)
        return values

    def value(self, run: Run) -> float:
        """Return the score of a run: of a task, or the mean over the tasks."""
        scores = self.of_runs[run]
        return sum(score.value for score in scores) / len(scores)

    def values(self, seeds: Sequence[int], prompts: Sequence[str]) -> Floats:
        """Return the scores of the runs with these seeds and prompts, `(seeds, prompts)`."""
        import numpy as np

        values = np.zeros((len(seeds), len(prompts)))
        for row, seed in enumerate(seeds):
            for column, prompt in enumerate(prompts):
                values[row, column] = self.value((seed, prompt))
        return values

    @cached_property
    def components(self) -> dict[Run, ItemComponents | None]:
        """Run -> contributions of its items to its sampling error; None if it has no items."""
        components = {}
        for run, scores in self.of_runs.items():
            components[run] = components_of_mean(scores)
        return components

    @cached_property
    def degenerate(self) -> str:
        """Why scores say nothing about their encoder; empty if none is degenerate."""
        reasons: dict[str, None] = {}
        for scores in self.of_runs.values():
            for score in scores:
                if score.degenerate:
                    reasons[score.degenerate] = None
        return "; ".join(reasons)


def mean_over_tasks(columns: Sequence[CellScores]) -> CellScores:
    """Return the mean over several columns, for the runs with a score in all of them; at least one is needed."""
    of_runs = {}
    for run in columns[0].of_runs:
        if all(run in column.of_runs for column in columns):
            scores: tuple[Score, ...] = ()
            for column in columns:
                scores += column.of_runs[run]
            of_runs[run] = scores
    return CellScores(of_runs)


def is_mean(average: CellScores, mean: CellScores) -> bool:
    """Whether a reported average has no items and equals `mean`, the mean of the columns, in each run."""
    for run, scores in average.of_runs.items():
        if run not in mean.of_runs or any(score.items is not None for score in scores):
            return False
        if not math.isclose(average.value(run), mean.value(run), abs_tol=_SAME):
            return False
    return True


def shared_seeds(columns: Iterable[CellScores]) -> list[int]:
    """Return the seeds that all columns have, in the order of the first; at least one column is needed."""
    first, *others = columns
    seeds = list(first.seeds)
    for other in others:
        seeds = [seed for seed in seeds if seed in other.seeds]
    return seeds
