"""Scores by which cells are compared while a study runs, and the variance of their differences due to the items.

Which scores decide is set in `[study.decide]`. The score of a cell under a seed is averaged over the prompts.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

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
"""Deciding scores of one run; empty if the run has not finished."""

ScoresOfCell: TypeAlias = Mapping[tuple[int, str], ScoresOfRun]
"""(Seed, prompt) of each run of a cell -> its deciding scores."""

ScoredTasks: TypeAlias = tuple[tuple[str, str, str], ...]
"""Evaluator, protocol id and task of each score of a run."""


@attrs.frozen
class Evidence:
    """Deciding scores of the cells that can be compared."""

    values: Mapping[str, tuple[float, ...]]
    """Cell -> deciding score under each seed, averaged over the prompts; higher is better."""
    items: ItemVariances | None
    """Function that computes the variances due to the items; None if any deciding score has no items."""
    left_out: Mapping[str, str]
    """Cell that cannot be compared -> reason."""
    prompts: Mapping[str, tuple[float, ...]] | None = None
    """Cell -> deciding score under each prompt, averaged over the seeds.

    None if prompts are no source of variance: there is only one, or they are all of interest and no sample.
    """


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
    """Whether the prompts are a sample of those that might be used; see `PromptFactor`."""
    _task_of_run: Mapping[tuple[str, str, int], Task] = attrs.field(init=False)
    """`Cell.identity` -> the task of that run."""
    _prompts: tuple[str, ...] = attrs.field(init=False)
    """Labels of the study's prompts; a single empty label in a study without prompts."""
    _scores: dict[Path, ScoresOfRun] = attrs.field(factory=dict, init=False)
    _components: ComponentStore = attrs.field(
        factory=lambda: ComponentStore(RESAMPLES), init=False
    )

    @_task_of_run.default
    def _by_identity(self) -> Mapping[tuple[str, str, int], Task]:
        return {task.cell.identity: task for task in self.tasks}

    @_prompts.default
    def _distinct_prompts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(task.cell.prompt for task in self.tasks))

    def of(self, cells: Sequence[str], seeds: Sequence[int]) -> Evidence:
        """Return the scores of `cells` under `seeds`. Raises `RunError` if a run cannot be read."""
        scores = {}
        for cell in cells:
            scores[cell] = self._scores_of_cell(cell, seeds)
        usual_tasks = _usual_tasks(scores.values())

        means: dict[str, list[MeanScore | PromptScores]] = {}
        left_out: dict[str, str] = {}
        for cell, of_cell in scores.items():
            reason = self._why_left_out(of_cell, usual_tasks)
            if reason:
                left_out[cell] = reason
            else:
                means[cell] = self._mean_scores(of_cell, seeds)

        items = None
        if all(_have_items(scores[cell]) for cell in means):
            items = partial(item_variances, means, self._components)
            reference = next(iter(means.values()), [])[:1]
            for cell, by_seed in means.items():
                try:
                    require_same_items([*reference, *by_seed])
                    self._components.of_all(by_seed)
                except RunError as error:
                    left_out[cell] = str(error)

        comparable = [cell for cell in means if cell not in left_out]
        values = {cell: _means(scores[cell], over="prompts") for cell in comparable}
        under_prompts = None
        if len(self._prompts) > 1 and self.prompts_are_sample:
            under_prompts = {
                cell: _means(scores[cell], over="seeds") for cell in comparable
            }
        return Evidence(values, items, left_out, under_prompts)

    def _scores_of_cell(self, cell: str, seeds: Sequence[int]) -> ScoresOfCell:
        """Return the deciding scores of a cell's runs, by seed and then by prompt."""
        scores = {}
        for seed in seeds:
            for prompt in self._prompts:
                task = self._task_of_run[cell, prompt, seed]
                scores[seed, prompt] = self._deciding(task)
        return scores

    def _why_left_out(
        self, of_cell: ScoresOfCell, usual_tasks: ScoredTasks | None
    ) -> str:
        """Return why a cell with these deciding scores cannot be compared; empty if it can."""
        for (seed, prompt), scores in of_cell.items():
            reason = why_undecided(seed, scores, self.decide, prompt)
            if reason:
                return reason
        if any(_tasks(scores) != usual_tasks for scores in of_cell.values()):
            return "its scores are of other tasks or protocols than those of the other cells"
        return ""

    def _mean_scores(
        self, of_cell: ScoresOfCell, seeds: Sequence[int]
    ) -> list[MeanScore | PromptScores]:
        """Return the deciding score of a cell under each seed, with its items."""
        means: list[MeanScore | PromptScores] = []
        for seed in seeds:
            scores = {}
            for prompt in self._prompts:
                scores[prompt] = MeanScore(of_cell[seed, prompt])
            if len(scores) == 1:
                means += scores.values()
            else:
                means.append(PromptScores(scores, self.prompts_are_sample))
        return means

    def tasks_of(self, task: Task) -> str:
        """Return the tasks of a finished run as text, each with the kind of its data: development or test."""
        tasks: dict[str, None] = {}
        for score in read_task(task, self.directory).scores:
            if score.axis != "cost":
                data = "development" if is_development(score) else "test"
                tasks[f"{score.task} ({data} data)"] = None
        return ", ".join(tasks) or "no task"

    def _deciding(self, task: Task) -> ScoresOfRun:
        """Return the deciding scores of a run; empty if the run has not finished."""
        if task.directory not in self._scores:
            if not task.is_done(self.directory):
                return ()
            scores = read_task(task, self.directory).scores
            self._scores[task.directory] = deciding_scores(scores, self.decide)
        return self._scores[task.directory]


def _means(
    of_cell: ScoresOfCell, over: Literal["seeds", "prompts"]
) -> tuple[float, ...]:
    """Return the mean deciding scores of a cell.

    `over = "prompts"` gives the mean over the prompts for each seed, `"seeds"` the mean over the seeds for each
    prompt.
    """
    numbers: dict[int | str, list[float]] = {}
    for (seed, prompt), scores in of_cell.items():
        group = seed if over == "prompts" else prompt
        numbers.setdefault(group, []).append(mean_of(scores) or 0.0)

    means = []
    for of_group in numbers.values():
        means.append(sum(of_group) / len(of_group))
    return tuple(means)


def _have_items(of_cell: ScoresOfCell) -> bool:
    """Whether all deciding scores of a cell have items."""
    scores = itertools.chain.from_iterable(of_cell.values())
    return all(score.items is not None for score in scores)


def _tasks(scores: ScoresOfRun) -> ScoredTasks:
    """Return evaluator, protocol id and task of each score."""
    return tuple((score.evaluator, score.protocol_id, score.task) for score in scores)


def _usual_tasks(scores_of_cells: Iterable[ScoresOfCell]) -> ScoredTasks | None:
    """Return the combination of scored tasks that is most common among runs; None without any deciding score."""
    tasks_of_runs: Counter[ScoredTasks] = Counter()
    for of_cell in scores_of_cells:
        for scores in of_cell.values():
            if scores:
                tasks_of_runs[_tasks(scores)] += 1
    most_common = tasks_of_runs.most_common(1)
    return most_common[0][0] if most_common else None


def missing_tasks(scores: Sequence[Score], decide: Decide) -> list[str]:
    """Return the tasks of `[study.decide]` without a score in `scores`."""
    scored = {score.task for score in scores}
    return [task for task in decide.tasks if task not in scored]


def why_undecided(
    seed: int,
    scores: Sequence[Score],
    decide: Decide,
    prompt: str = "",
) -> str:
    """Return why the deciding scores of one run cannot be compared; empty if they can.

    Raises:
        RunError: if the scores have no common mean.
    """
    run = f"seed {seed}"
    if prompt:
        run += f" and prompt {prompt}"
    if not scores:
        return f"it has no score that decides under {run}"

    missing = missing_tasks(scores, decide)
    if missing:
        return f"it has no score of {missing[0]} under {run}"

    mean_of(scores)  # raises if the scores have no common mean
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
    """Return the variance of each pair's difference that is due to the items, and its degrees of freedom.

    Both arrays are `(cells, cells)`. `scores` maps each cell to its score under each seed. As in the tables of
    the report, an item that several tasks have in common counts once, and the interaction of seeds and items
    is a part of the variance over seeds.
    """
    import numpy as np

    variances = np.zeros((len(cells), len(cells)))
    degrees = np.full_like(variances, np.inf)
    by_seed = {cell: dict(enumerate(scores[cell])) for cell in cells}
    for (row, first), (column, second) in itertools.combinations(enumerate(cells), 2):
        judged = compared(by_seed[first], by_seed[second], components)
        if judged.item_variance is not None:
            variances[row, column] = variances[column, row] = judged.item_variance
            degrees[row, column] = degrees[column, row] = judged.item_degrees
    return variances, degrees
