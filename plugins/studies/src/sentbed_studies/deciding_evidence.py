"""What is known of a study's cells when each has its first seeds: deciding scores, and what items add."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, combinations
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


@attrs.frozen
class Evidence:
    """Scores of the cells that can be compared."""

    values: Mapping[str, tuple[float, ...]]
    """Cell -> deciding score under each seed, higher is better; with several prompts, the mean over them."""
    items: ItemVariances | None
    """None if the scores have no items."""
    left: Mapping[str, str]
    """Cell that cannot be compared -> why."""
    prompts: Mapping[str, tuple[float, ...]] | None = None
    """Cell -> deciding score under each prompt, the mean over the seeds; None where prompts are no sample."""


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
    """Reads the finished runs of a study, and uses the items of each deciding score once."""

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
        """Return what is known of `cells` under `seeds`. Raises `RunError` if a run cannot be read."""
        runs = {task.cell.identity: task for task in self.tasks}
        prompts = tuple(dict.fromkeys(task.cell.prompt for task in self.tasks))
        places = [(prompt, seed) for seed in seeds for prompt in prompts]
        scores = {}
        for cell in cells:
            scores[cell] = [
                self._deciding(runs[cell, prompt, seed]) for prompt, seed in places
            ]
        tasks_of_runs = Counter(
            _tasks(run) for run in chain.from_iterable(scores.values()) if run
        )
        usual_tasks = {tasks for tasks, _ in tasks_of_runs.most_common(1)}
        values: dict[str, tuple[float, ...]] = {}
        under_prompts: dict[str, tuple[float, ...]] = {}
        means: dict[str, list[MeanScore | PromptScores]] = {}
        left: dict[str, str] = {}
        has_items = True
        for cell, of_runs in scores.items():
            reason = ""
            for (prompt, seed), of_run in zip(places, of_runs, strict=True):
                reason = reason or why_undecided(seed, of_run, self.decide, prompt)
            if not reason and set(map(_tasks, of_runs)) != usual_tasks:
                reason = "its scores are of other tasks or protocols than those of the other cells"
            if reason:
                left[cell] = reason
                continue
            numbers = [mean_of(run) or 0.0 for run in of_runs]
            values[cell] = _means(
                numbers[i : i + len(prompts)]
                for i in range(0, len(numbers), len(prompts))
            )
            under_prompts[cell] = _means(
                numbers[i :: len(prompts)] for i in range(len(prompts))
            )
            means[cell] = self._by_seed(of_runs, prompts)
            has_items &= all(
                score.items is not None for score in chain.from_iterable(of_runs)
            )
        is_source = len(prompts) > 1 and self.prompts_are_sample
        of_prompts = under_prompts if is_source else None
        if not has_items:
            return Evidence(values, None, left, of_prompts)

        reference = next(iter(means.values()), [])[:1]
        for cell, of_cell in means.items():
            try:
                require_same_items([*reference, *of_cell])
                self._components.of_all(of_cell)
            except RunError as error:
                left[cell] = str(error)
                del values[cell]
        return Evidence(
            values, partial(item_variances, means, self._components), left, of_prompts
        )

    def _by_seed(
        self, of_runs: Sequence[ScoresOfRun], prompts: Sequence[str]
    ) -> list[MeanScore | PromptScores]:
        """Return the deciding score of each seed, from those of its runs under each prompt."""
        means = list(map(MeanScore, of_runs))
        if len(prompts) == 1:
            return [*means]
        by_seed: list[MeanScore | PromptScores] = []
        for first in range(0, len(means), len(prompts)):
            of_prompts = dict(
                zip(prompts, means[first : first + len(prompts)], strict=True)
            )
            by_seed.append(PromptScores(of_prompts, self.prompts_are_sample))
        return by_seed

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


def _means(groups: Iterable[Sequence[float]]) -> tuple[float, ...]:
    """Return the mean of each group of numbers; that of a single number is the number."""
    return tuple(sum(group) / len(group) for group in groups)


def _tasks(scores: ScoresOfRun) -> tuple[tuple[str, str, str], ...]:
    """Return evaluator, protocol id and task of each score."""
    return tuple((score.evaluator, score.protocol_id, score.task) for score in scores)


def missing_tasks(scores: Sequence[Score], decide: Decide) -> list[str]:
    """Return the tasks that are to decide and are not among the scores of a run."""
    scored = {score.task for score in scores}
    return [task for task in decide.tasks if task not in scored]


def why_undecided(
    seed: int, scores: Sequence[Score], decide: Decide, prompt: str = ""
) -> str:
    """Return why the scores of one run cannot decide; empty if they can."""
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
