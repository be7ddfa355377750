"""What is known of a study's cells when each has its first seeds: deciding scores, and what items add."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Score
from sentbed_report.data_splits import is_development
from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.statistics.item_components import ComponentStore, MeanScore, require_same_items
from sentbed_report.statistics.significance import RESAMPLES, compared
from sentbed_report.study.deciding_score import Decide, deciding_scores, mean_of
from sentbed_report.study.read_cell_run import read_run
from sentbed_report.study.study_data import CellRun

from sentbed_studies.sequential_test import ItemVariances
from sentbed_studies.shared_work_plan import Task

if TYPE_CHECKING:
    from sentbed_studies.sequential_test import Floats

ScoresOfRun: TypeAlias = tuple[Score, ...]
"""Deciding scores of one run."""


@attrs.frozen
class Evidence:
    """Scores of the cells that can be compared."""

    values: Mapping[str, tuple[float, ...]]
    """Cell -> deciding score under each seed, higher is better."""
    items: ItemVariances | None
    """None if the scores have no items."""
    left: Mapping[str, str]
    """Cell that cannot be compared -> why."""


def read_task(task: Task, directory: Path) -> CellRun:
    """Return the run of a cell in the directory of its study. Raises `RunError` if it cannot be read."""
    cell = task.cell
    run = read_run(directory / task.directory, cell.name, cell.seed, directory, task.evaluation_keys)
    return attrs.evolve(run, prompt=cell.prompt)


@attrs.define(eq=False)
class DecidingEvidence:
    """Reads the finished runs of a study, and uses the items of each deciding score once."""

    directory: Path
    decide: Decide
    tasks: Sequence[Task]
    _scores: dict[Path, ScoresOfRun] = attrs.field(factory=dict, init=False)
    _components: ComponentStore = attrs.field(factory=lambda: ComponentStore(RESAMPLES), init=False)

    def of(self, cells: Sequence[str], seeds: Sequence[int]) -> Evidence:
        """Return what is known of `cells` under `seeds`. Raises `RunError` if a run cannot be read."""
        runs = {(task.cell.name, task.cell.seed): task for task in self.tasks}
        scores = {cell: [self._deciding(runs[cell, seed]) for seed in seeds] for cell in cells}
        tasks_of_runs = Counter(_tasks(run) for run in chain.from_iterable(scores.values()) if run)
        usual_tasks = {tasks for tasks, _ in tasks_of_runs.most_common(1)}
        values: dict[str, tuple[float, ...]] = {}
        means: dict[str, list[MeanScore]] = {}
        left: dict[str, str] = {}
        has_items = True
        for cell, of_seeds in scores.items():
            reason = ""
            for seed, of_seed in zip(seeds, of_seeds, strict=True):
                reason = reason or why_undecided(seed, of_seed, self.decide)
            if not reason and set(map(_tasks, of_seeds)) != usual_tasks:
                reason = "its scores are of other tasks or protocols than those of the other cells"
            if reason:
                left[cell] = reason
                continue
            values[cell] = tuple(mean_of(run) or 0.0 for run in of_seeds)
            means[cell] = list(map(MeanScore, of_seeds))
            has_items &= all(score.items is not None for score in chain.from_iterable(of_seeds))
        if not has_items:
            return Evidence(values, None, left)

        reference = next(iter(means.values()), [])[:1]
        for cell, of_cell in means.items():
            try:
                require_same_items([*reference, *of_cell])
                self._components.of_all(of_cell)
            except RunError as error:
                left[cell] = str(error)
                del values[cell]
        return Evidence(values, partial(item_variances, means, self._components), left)

    def tasks_of(self, task: Task) -> str:
        """Return the tasks of a finished run with the data that they are on, in words."""
        tasks: dict[str, None] = {}
        for score in read_task(task, self.directory).scores:
            if score.axis != "cost":
                data = "development" if is_development(score) else "test"
                tasks[f"{score.task} ({data} data)"] = None
        return ", ".join(tasks) or "no task"

    def _deciding(self, task: Task) -> ScoresOfRun:
        """Return the deciding scores of a run; none if it has not finished."""
        if task.directory not in self._scores:
            if not task.is_done(self.directory):
                return ()
            self._scores[task.directory] = deciding_scores(
                read_task(task, self.directory).scores, self.decide
            )
        return self._scores[task.directory]


def _tasks(scores: ScoresOfRun) -> tuple[tuple[str, str, str], ...]:
    """Return evaluator, protocol id and task of each score."""
    return tuple((score.evaluator, score.protocol_id, score.task) for score in scores)


def missing_tasks(scores: Sequence[Score], decide: Decide) -> list[str]:
    """Return the tasks that are to decide and are not among the scores of a run."""
    scored = {score.task for score in scores}
    return [task for task in decide.tasks if task not in scored]


def why_undecided(seed: int, scores: Sequence[Score], decide: Decide) -> str:
    """Return why the scores of one run cannot decide; empty if they can."""
    if not scores:
        return f"it has no score that decides under seed {seed}"
    missing = missing_tasks(scores, decide)
    if missing:
        return f"it has no score of {missing[0]} under seed {seed}"
    # Raises if the scores have no mean.
    mean_of(scores)
    if not all(math.isfinite(score.value) for score in scores):
        return f"a score under seed {seed} is not finite"
    for score in scores:
        reason = degenerate_of(score)
        if reason:
            return f"its score of {score.task} under seed {seed} is degenerate: {reason}"
    return ""


def item_variances(
    scores: Mapping[str, Sequence[MeanScore]], components: ComponentStore, cells: Sequence[str]
) -> tuple[Floats, Floats]:
    """Return variance and degrees of freedom of the difference of each pair of cells, over the items.

    They are those of the tables: an item that several tasks have counts once, and what one seed does to one
    item is left to the variance over seeds.
    """
    import numpy as np

    variances = np.zeros((len(cells), len(cells)))
    degrees = np.full_like(variances, np.inf)
    of_seeds = {cell: dict(enumerate(scores[cell])) for cell in cells}
    for (row, first), (column, second) in combinations(enumerate(cells), 2):
        judged = compared(of_seeds[first], of_seeds[second], components)
        if judged.item_variance is not None:
            variances[row, column] = variances[column, row] = judged.item_variance
            degrees[row, column] = degrees[column, row] = judged.item_degrees
    return variances, degrees
