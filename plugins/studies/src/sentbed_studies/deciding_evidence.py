"""What is known of a study's cells when each has its first seeds: deciding scores, and what items add."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Score
from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.resampling import Resampled, resample
from sentbed_report.study.deciding_score import Decide, deciding_scores, is_development, mean_of
from sentbed_report.study.read_cell_run import read_run
from sentbed_report.study.significance import RESAMPLES, item_degrees
from sentbed_report.study.study_data import CellRun

from sentbed_studies.sequential_test import ItemVariances, no_items, pair_variances
from sentbed_studies.shared_work_plan import Task

if TYPE_CHECKING:
    from sentbed_studies.sequential_test import Floats

Name: TypeAlias = tuple[str, str, str]
"""Evaluator, protocol id and task of a score."""


@attrs.frozen
class Evidence:
    """Scores of the cells that can be compared."""

    values: Mapping[str, tuple[float, ...]]
    """Cell -> deciding score under each seed, higher is better."""
    items: ItemVariances
    left: Mapping[str, str]
    """Cell that cannot be compared -> why."""
    degenerate: frozenset[str] = frozenset()
    """Cells with a score that says nothing about their encoder."""


@attrs.define(eq=False)
class DecidingEvidence:
    """Reads the finished runs of a study, and resamples the items of each deciding score once."""

    directory: Path
    decide: Decide
    tasks: Sequence[Task]
    _scores: dict[Path, tuple[Score, ...]] = attrs.field(factory=dict, init=False)
    _draws: dict[int, Resampled] = attrs.field(factory=dict, init=False)

    def of(self, cells: Sequence[str], seeds: Sequence[int]) -> Evidence:
        """Return what is known of `cells` under `seeds`. Raises `RunError` if a run cannot be read."""
        runs = {(task.cell.name, task.cell.seed): task for task in self.tasks}
        found: dict[str, list[tuple[Score, ...]]] = {}
        left: dict[str, str] = {}
        every = {cell: [self._of(runs[cell, seed]) for seed in seeds] for cell in cells}
        names = Counter(tuple(map(_name, one)) for scores in every.values() for one in scores if one)
        for cell, scores in every.items():
            wrong = next(
                filter(None, (_wrong(*pair, self.decide) for pair in zip(seeds, scores, strict=True))), ""
            )
            if not wrong and any(tuple(map(_name, one)) != names.most_common(1)[0][0] for one in scores):
                wrong = "its scores are of other tasks or protocols than those of the other cells"
            if wrong:
                left[cell] = wrong
            else:
                found[cell] = scores
        values = {
            cell: tuple(mean_of(of_seed) or 0.0 for of_seed in scores) for cell, scores in found.items()
        }
        degenerate = frozenset(
            cell
            for cell, scores in found.items()
            if any(degenerate_of(one) for seed in scores for one in seed)
        )
        if any(score.items is None for scores in found.values() for score in itertools.chain(*scores)):
            return Evidence(values, no_items, left, degenerate)
        draws = {cell: self._resampled(scores) for cell, scores in found.items()}
        first = next(iter(draws.values()), [])
        for cell, of_cell in draws.items():
            try:
                for of_seed in of_cell:
                    for ours, other in zip(first[0], of_seed, strict=True):
                        ours.compare(other)
            except RunError as error:
                left[cell] = str(error)
        kept = {cell: one for cell, one in values.items() if cell not in left}
        return Evidence(kept, partial(_item_variances, draws), left, degenerate)

    def tasks_of(self, task: Task) -> str:
        """Return the tasks of a finished run with the data that they are on, in words."""
        read = self._read(task)
        data = {
            f"{one.task} ({'development' if is_development(one) else 'test'} data)": None
            for one in read.scores
            if one.axis != "cost"
        }
        return ", ".join(data) or "no task"

    def _read(self, task: Task) -> CellRun:
        run, cell = self.directory / task.directory, task.cell
        return read_run(run, cell.name, cell.seed, self.directory, task.evaluation_keys)

    def _of(self, task: Task) -> tuple[Score, ...]:
        """Return the deciding scores of a run; none if it has not finished."""
        if task.directory not in self._scores:
            if not task.is_done(self.directory):
                return ()
            self._scores[task.directory] = deciding_scores(self._read(task).scores, self.decide)
        return self._scores[task.directory]

    def _resampled(self, scores: Sequence[tuple[Score, ...]]) -> list[list[Resampled]]:
        """Return the draws of each score under each seed. All scores have items."""
        for of_seed in scores:
            for score in of_seed:
                if id(score) not in self._draws and score.items is not None:
                    self._draws[id(score)] = resample(score.items, RESAMPLES)
        return [[self._draws[id(score)] for score in of_seed] for of_seed in scores]


def _name(score: Score) -> Name:
    return score.evaluator, score.protocol_id, score.task


def _wrong(seed: int, scores: Sequence[Score], decide: Decide) -> str:
    """Return why scores cannot decide; empty if they can."""
    if not scores:
        return f"it has no score that decides under seed {seed}"
    if lacking := [task for task in decide.tasks if all(score.task != task for score in scores)]:
        return f"it has no score of {lacking[0]} under seed {seed}"
    if mean_of(scores) is None or any(score.value - score.value != 0 for score in scores):
        return f"a score under seed {seed} is not finite"
    return ""


def _item_variances(
    draws: Mapping[str, Sequence[Sequence[Resampled]]], cells: Sequence[str]
) -> tuple[Floats, Floats]:
    """Return variance and degrees of freedom of the difference of each pair of cells, over the items.

    Tasks have items of their own: the variance of the mean over tasks is the sum of theirs over the square of
    their number, with Satterthwaite's degrees of freedom.
    """
    import numpy as np

    total = np.zeros((len(cells), len(cells)))
    below = np.zeros_like(total)
    tasks = len(draws[cells[0]][0])
    for place in range(tasks):
        known = item_degrees(draws[cells[0]][0][place].items)
        if known is None:
            return no_items(cells)
        degrees, missing = known
        means = np.array([np.mean([of_seed[place].draws for of_seed in draws[c]], axis=0) for c in cells])
        variances = pair_variances(means) * missing / tasks**2
        total += variances
        below += variances**2 / degrees
    return total, np.where(below > 0, total**2 / np.where(below > 0, below, 1.0), np.inf)
