"""Claims that a table of scores allows: which models differ over the tasks, and on what the ranking depends.

The table has models as rows and tasks as columns. The tasks are the sample: every test asks whether other tasks
of this kind would give the same order. Two models are compared by Wilcoxon's signed-rank test over all tasks of
the table, and the p-values of all pairs are corrected by Holm's method.
Intervals of ranks follow from the pairs that differ (Klein, Wright and Wieczorek, 2020). If tasks resemble each
other, p-values are too small.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
import pandas
from numpy.typing import NDArray
from sentbed_report.statistics.difference import holm
from sentbed_report.statistics.levels import SIGNIFICANT

from sentbed_audit.signed_ranks import signed_rank_p_values

Floats = NDArray[np.float64]


@attrs.frozen(eq=False)
class Pairs:
    """Comparisons of all pairs of models, as matrices `(models, models)` in the order of the table.

    Entry (i, j) compares model i with model j over all tasks.
    """

    differences: Floats
    """Mean, over the tasks, of the score of model i minus that of model j."""
    wins: NDArray[np.int64]
    """Number of tasks on which model i is better than model j."""
    p_values: Floats
    corrected: Floats
    """P-values, corrected by Holm's method over all pairs."""

    def better(self, corrected: bool = True) -> NDArray[np.bool_]:
        """Return whether model i is significantly better than model j, `(models, models)`.

        With `corrected`, the corrected p-value of the pair decides.
        """
        p_values = self.p_values
        if corrected:
            p_values = self.corrected
        return (p_values < SIGNIFICANT) & (self.differences > 0)


@attrs.frozen
class Neighbours:
    """Two models that follow each other in the ranking by mean."""

    first: str
    second: str
    difference: float
    p_value: float
    corrected: float
    wins: int
    """Number of tasks on which the first model is better."""
    losses: int
    """Number of tasks on which the first model is worse; on the other tasks, both are equal."""

    @property
    def is_conflict(self) -> bool:
        """Whether the first model, which has the better mean, is worse on more tasks than it is better on."""
        return self.wins < self.losses


@attrs.frozen(eq=False)
class Claims:
    """Rankings and tests of the models that have all tasks."""

    scores: pandas.DataFrame
    """Scores `(models, tasks)`, the best mean first. They are multiplied by 100 if all are from -1 to 1."""
    means: pandas.Series
    mean_ranks: pandas.Series
    """Mean, over tasks, of each model's rank; the best model of a task has rank 1."""
    type_means: pandas.DataFrame
    """Mean over the tasks of each type, with one column per type; empty if types are unknown."""
    rank_intervals: tuple[tuple[int, int], ...]
    pairs: Pairs
    neighbours: tuple[Neighbours, ...]

    @property
    def leaders(self) -> dict[str, str]:
        """Way of ranking -> model that is first in it."""
        leaders = {}
        leaders["mean over tasks"] = str(self.means.index[0])
        leaders["mean rank"] = str(self.mean_ranks.idxmin())
        if not self.type_means.empty:
            means_over_types = self.type_means.mean(axis=1)
            leaders["mean over types of tasks"] = str(means_over_types.idxmax())
        return leaders

    @property
    def not_told_apart_from_first(self) -> int:
        """Number of other models that are not significantly worse than the first model."""
        return int((~self.pairs.better()[0]).sum()) - 1

    @property
    def smallest_p_value(self) -> float:
        """Smallest p-value that the test over this number of tasks can have."""
        return float(2.0 ** (1 - self.scores.shape[1]))

    @property
    def tasks_needed(self) -> int:
        """Smallest number of tasks with which a pair can differ significantly after the correction."""
        models = len(self.scores)
        pairs = models * (models - 1) / 2
        return math.ceil(1 + math.log2(pairs / SIGNIFICANT))


def claims_of(table: pandas.DataFrame, types: Mapping[str, str]) -> Claims:
    """Return rankings and tests of the models that have all tasks.

    `table` has a row per model and a column per task, with NaN where a model lacks a task. `types` has the type
    of each task.

    Raises:
        ValueError: if fewer than two models have all tasks, or if there is no task.
    """
    scores = table.dropna()
    if len(scores) < 2:
        raise ValueError(
            f"{len(scores)} of {len(table)} models have all {table.shape[1]} tasks, "
            "expected two or more; name fewer tasks with `--task`"
        )
    if scores.columns.empty:
        raise ValueError(
            f"no task has scores of half of the {len(scores)} models; name models that share tasks with `--model`"
        )

    if scores.abs().to_numpy().max() <= 1:
        scores = 100 * scores
    # Stable, so that models with equal means are in the order of their names.
    order = scores.mean(axis=1).sort_values(ascending=False, kind="stable").index
    scores = scores.loc[order]
    type_of_task = {task: types[task] for task in scores.columns if task in types}
    tasks_of_type: defaultdict[str, list[str]] = defaultdict(list)
    for task, name in type_of_task.items():
        tasks_of_type[name].append(task)

    pairs = compare_all(scores)
    better = pairs.better()
    # The best possible rank, and the worst one (Klein, Wright and Wieczorek, 2020).
    lowest_ranks = 1 + better.sum(axis=0)
    highest_ranks = len(better) - better.sum(axis=1)
    rank_intervals = zip(lowest_ranks.tolist(), highest_ranks.tolist(), strict=True)
    type_means = pandas.DataFrame(index=scores.index)
    for name, tasks in tasks_of_type.items():
        type_means[name] = scores[tasks].mean(axis=1)

    names = list(map(str, scores.index))
    mean_ranks = scores.rank(ascending=False).mean(axis=1)
    return Claims(
        scores=scores,
        means=scores.mean(axis=1),
        mean_ranks=mean_ranks,
        type_means=type_means,
        rank_intervals=tuple(rank_intervals),
        pairs=pairs,
        neighbours=tuple(_neighbours(names, pairs)),
    )


def compare_all(scores: pandas.DataFrame) -> Pairs:
    """Compare each pair of models (rows) over all tasks (columns)."""
    values = scores.to_numpy(float)
    rows = len(values)
    firsts, seconds = np.triu_indices(rows, 1)
    differences = values[firsts] - values[seconds]
    means = differences.mean(axis=1)
    p_values = signed_rank_p_values(differences)
    corrected = np.array(list(holm(dict(enumerate(p_values.tolist()))).values()))
    wins = (differences > 0).sum(axis=1)
    losses = (differences < 0).sum(axis=1)
    return Pairs(
        differences=_matrix(rows, means, -means),
        wins=_matrix(rows, wins, losses),
        p_values=_matrix(rows, p_values, p_values),
        corrected=_matrix(rows, corrected, corrected),
    )


def _matrix(
    rows: int,
    above: NDArray[Any],
    below: NDArray[Any],
) -> NDArray[Any]:
    """Return a matrix `(rows, rows)` with zeros on its diagonal.

    `above` and `below` have the values above and below the diagonal: one per pair of rows, in the order of
    `np.triu_indices`.
    """
    matrix = np.zeros((rows, rows), above.dtype)
    firsts, seconds = np.triu_indices(rows, 1)
    matrix[firsts, seconds] = above
    matrix[seconds, firsts] = below
    return matrix


def _neighbours(names: Sequence[str], pairs: Pairs) -> Iterator[Neighbours]:
    """Yield the comparison of each model with the next one in the ranking."""
    for place, (first, second) in enumerate(pairwise(names)):
        pair = place, place + 1
        difference = float(pairs.differences[pair])
        p_value = float(pairs.p_values[pair])
        corrected = float(pairs.corrected[pair])
        wins = int(pairs.wins[pair])
        losses = int(pairs.wins[place + 1, place])
        yield Neighbours(
            first=first,
            second=second,
            difference=difference,
            p_value=p_value,
            corrected=corrected,
            wins=wins,
            losses=losses,
        )
