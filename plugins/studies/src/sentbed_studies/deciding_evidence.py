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
from sentbed_report.data_splits import is_development
from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.item_components import ComponentStore, MeanScore, require_same_items
from sentbed_report.study.deciding_score import Decide, deciding_scores, mean_of
from sentbed_report.study.read_cell_run import read_run
from sentbed_report.study.significance import RESAMPLES, compared
from sentbed_report.study.study_data import CellRun

from sentbed_studies.sequential_test import ItemVariances, no_items
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


@attrs.define(eq=False)
class DecidingEvidence:
    """Reads the finished runs of a study, and uses the items of each deciding score once."""

    directory: Path
    decide: Decide
    tasks: Sequence[Task]
    _scores: dict[Path, tuple[Score, ...]] = attrs.field(factory=dict, init=False)
    _components: ComponentStore = attrs.field(factory=lambda: ComponentStore(RESAMPLES), init=False)

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
        means = {cell: tuple(MeanScore(of_seed) for of_seed in scores) for cell, scores in found.items()}
        values = {
            cell: tuple(mean_of(of_seed) or 0.0 for of_seed in scores) for cell, scores in found.items()
        }
        if any(score.items is None for scores in found.values() for score in itertools.chain(*scores)):
            return Evidence(values, no_items, left)
        reference = next(iter(means.values()), ())
        for cell, of_cell in means.items():
            try:
                for mean in of_cell:
                    require_same_items(reference[0], mean)
                    self._components.of(mean)
            except RunError as error:
                left[cell] = str(error)
        kept = {cell: scores for cell, scores in values.items() if cell not in left}
        return Evidence(kept, partial(item_variances, means, self._components), left)

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
    for score in scores:
        if reason := degenerate_of(score):
            return f"its score of {score.task} under seed {seed} is degenerate: {reason}"
    return ""


def item_variances(
    scores: Mapping[str, Sequence[MeanScore]], components: ComponentStore, cells: Sequence[str]
) -> tuple[Floats, Floats]:
    """Return variance and degrees of freedom of the difference of each pair of cells, over the items.

    They are those of the tables: an item that several tasks have counts once, and what one seed does to one
    item is left to the variance over seeds.
    """
    variances, degrees = no_items(cells)
    for (row, first), (column, second) in itertools.combinations(enumerate(cells), 2):
        pairs = dict(enumerate(zip(scores[first], scores[second], strict=True)))
        found = compared(pairs, components)
        if found.item_variance is not None:
            variances[row, column] = variances[column, row] = found.item_variance
            degrees[row, column] = degrees[column, row] = found.item_degrees
    return variances, degrees
