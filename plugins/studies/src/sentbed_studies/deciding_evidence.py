"""Deciding scores of a study's cells under their first seeds, and the variance that is due to the items."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Score
from sentbed_report.data_splits import is_development
from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.statistics.item_components import (
    ComponentStore,
    MeanScore,
    PromptScores,
    require_same_items,
)
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

ScoredTasks: TypeAlias = tuple[tuple[str, str, str], ...]
"""Evaluator, protocol id and task of each score of a run."""


@attrs.frozen
class Evidence:
    """Scores of the cells that can be compared."""

    values: Mapping[str, tuple[float, ...]]
    """Cell -> deciding score under each seed, averaged over the prompts; higher is better."""
    items: ItemVariances | None
    """None if the scores have no items."""
    left: Mapping[str, str]
    """Cell that cannot be compared -> reason."""
    prompts: Mapping[str, tuple[float, ...]] | None = None
    """Cell -> deciding score under each prompt, averaged over the seeds; None if prompts are no sample."""


def read_task(task: Task, directory: Path) -> CellRun:
    """Return the run of a cell in the directory of its study. Raises `RunError` if it cannot be read."""
    cell = task.cell
    run = read_run(
        directory / task.directory,
        cell.name,
        cell.seed,
        directory,
        task.evaluation_keys,
    )
    return attrs.evolve(run, prompt=cell.prompt)


@attrs.define(eq=False)
class DecidingEvidence:
    """Reads the finished runs of a study, and prepares the items of each deciding score once."""

    directory: Path
    decide: Decide
    tasks: Sequence[Task]
    prompts_are_sample: bool = True
    """Whether the prompts, if there are some, are a sample; see `PromptFactor`."""
    _scores: dict[Path, ScoresOfRun] = attrs.field(factory=dict, init=False)
    _components: ComponentStore = attrs.field(
        factory=lambda: ComponentStore(RESAMPLES), init=False
    )

    def of(self, cells: Sequence[str], seeds: Sequence[int]) -> Evidence:
        """Return the scores of `cells` under `seeds`. Raises `RunError` if a run cannot be read."""
        prompts = tuple(dict.fromkeys(task.cell.prompt for task in self.tasks))
        tasks = {task.cell.identity: task for task in self.tasks}
        scores: dict[str, dict[tuple[int, str], ScoresOfRun]] = {c: {} for c in cells}
        for cell, seed, prompt in product(cells, seeds, prompts):
            task = tasks[cell, prompt, seed]
            scores[cell][seed, prompt] = self._deciding(task)

        usual_tasks = _usual_tasks(scores.values())

        values: dict[str, tuple[float, ...]] = {}
        under_prompts: dict[str, tuple[float, ...]] = {}
        means: dict[str, list[MeanScore | PromptScores]] = {}
        left: dict[str, str] = {}
        has_items = True
        for cell, of_runs in scores.items():
            reason = self._why_left(of_runs, usual_tasks)
            if reason:
                left[cell] = reason
                continue
            of_seeds: dict[int, list[float]] = {seed: [] for seed in seeds}
            of_prompts: dict[str, list[float]] = {prompt: [] for prompt in prompts}
            for (seed, prompt), of_run in of_runs.items():
                number = mean_of(of_run) or 0.0
                of_seeds[seed].append(number)
                of_prompts[prompt].append(number)
                has_items &= all(score.items is not None for score in of_run)
            values[cell] = tuple(map(_mean, of_seeds.values()))
            under_prompts[cell] = tuple(map(_mean, of_prompts.values()))
            means[cell] = [self._mean_score(of_runs, seed, prompts) for seed in seeds]

        is_source = len(prompts) > 1 and self.prompts_are_sample
        scores_of_prompts = under_prompts if is_source else None
        if not has_items:
            return Evidence(values, None, left, scores_of_prompts)

        reference = next(iter(means.values()), [])[:1]
        for cell, by_seed in means.items():
            try:
                require_same_items([*reference, *by_seed])
                self._components.of_all(by_seed)
            except RunError as error:
                left[cell] = str(error)
                del values[cell]

        items = partial(item_variances, means, self._components)
        return Evidence(values, items, left, scores_of_prompts)

    def _why_left(
        self,
        of_runs: Mapping[tuple[int, str], ScoresOfRun],
        usual_tasks: ScoredTasks | None,
    ) -> str:
        """Return why a cell with these deciding scores cannot be compared; empty if it can."""
        for (seed, prompt), scores in of_runs.items():
            reason = why_undecided(seed, scores, self.decide, prompt)
            if reason:
                return reason
        if any(_tasks(scores) != usual_tasks for scores in of_runs.values()):
            return "its scores are of other tasks or protocols than those of the other cells"
        return ""

    def _mean_score(
        self,
        of_runs: Mapping[tuple[int, str], ScoresOfRun],
        seed: int,
        prompts: Sequence[str],
    ) -> MeanScore | PromptScores:
        """Return the deciding score of one seed, with its items."""
        scores = {prompt: MeanScore(of_runs[seed, prompt]) for prompt in prompts}
        if len(prompts) == 1:
            return scores[prompts[0]]
        return PromptScores(scores, self.prompts_are_sample)

    def tasks_of(self, task: Task) -> str:
        """Return the tasks of a finished run, each with whether it is on development or test data, as text."""
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
            scores = read_task(task, self.directory).scores
            self._scores[task.directory] = deciding_scores(scores, self.decide)
        return self._scores[task.directory]


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _tasks(scores: ScoresOfRun) -> ScoredTasks:
    """Return evaluator, protocol id and task of each score."""
    return tuple((score.evaluator, score.protocol_id, score.task) for score in scores)


def _usual_tasks(
    scores_of_cells: Iterable[Mapping[tuple[int, str], ScoresOfRun]],
) -> ScoredTasks | None:
    """Return the tasks that most runs with deciding scores have; None if there is no such run."""
    tasks_of_runs: Counter[ScoredTasks] = Counter()
    for of_runs in scores_of_cells:
        tasks_of_runs.update(_tasks(scores) for scores in of_runs.values() if scores)
    most_common = tasks_of_runs.most_common(1)
    return most_common[0][0] if most_common else None


def missing_tasks(scores: Sequence[Score], decide: Decide) -> list[str]:
    """Return the deciding tasks of which a run has no score."""
    scored = {score.task for score in scores}
    return [task for task in decide.tasks if task not in scored]


def why_undecided(
    seed: int, scores: Sequence[Score], decide: Decide, prompt: str = ""
) -> str:
    """Return why the deciding scores of one run cannot be compared; empty if they can."""
    run = f"seed {seed} and prompt {prompt}" if prompt else f"seed {seed}"
    if not scores:
        return f"it has no score that decides under {run}"

    missing = missing_tasks(scores, decide)
    if missing:
        return f"it has no score of {missing[0]} under {run}"

    # Raises if the scores have no mean.
    mean_of(scores)
    if not all(math.isfinite(score.value) for score in scores):
        return f"a score under {run} is not finite"

    for score in scores:
        reason = degenerate_of(score)
        if reason:
            return f"its score of {score.task} under {run} is degenerate: {reason}"
    return ""


def item_variances(
    scores: Mapping[str, Sequence[MeanScore | PromptScores]],
    components: ComponentStore,
    cells: Sequence[str],
) -> tuple[Floats, Floats]:
    """Return variance over the items and its degrees of freedom of each pair's difference, `(cells, cells)`.

    They are computed as in the tables: an item that several tasks have counts once, and the interaction of seeds
    and items is a part of the variance over seeds.
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
