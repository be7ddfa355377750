"""`CellScores`: the scores of a cell in a column of a table, a run each, with their items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import attrs
from sentbed.protocols import Score

from sentbed_report.statistics.sampling_error import ItemComponents, components_of_mean

Run: TypeAlias = tuple[int, str]
"""Seed and prompt of a run; the prompt is empty in a study without prompts."""


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
            of_prompts = [self.value((seed, prompt)) for prompt in self.prompts]
            values[seed] = sum(of_prompts) / len(of_prompts)
        return values

    def value(self, run: Run) -> float:
        """Return the score of a run: of a task, or the mean over the tasks."""
        scores = self.of_runs[run]
        return sum(score.value for score in scores) / len(scores)

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
        for score in chain.from_iterable(self.of_runs.values()):
            reasons[score.degenerate] = None
        return "; ".join(filter(None, reasons))


def mean_over_tasks(columns: Sequence[CellScores]) -> CellScores:
    """Return the mean over several columns, for the runs with a score in all of them; at least one is needed."""
    of_runs = {}
    for run in columns[0].of_runs:
        if all(run in column.of_runs for column in columns):
            scores = [column.of_runs[run] for column in columns]
            of_runs[run] = tuple(chain.from_iterable(scores))
    return CellScores(of_runs)
