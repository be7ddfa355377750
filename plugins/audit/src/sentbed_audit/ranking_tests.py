"""Claims that a table of scores allows: which models differ over the tasks.

The table has models as rows and tasks as columns. The tasks are the sample: every test asks whether other tasks
of this kind would give the same order. Two models are compared by Wilcoxon's signed-rank test over all tasks of
the table, and the p-values of all pairs are corrected by Holm's method.
Intervals of ranks follow from the pairs that differ (Klein, Wright and Wieczorek, 2020). If tasks resemble each
other, p-values are too small.
"""

from __future__ import annotations

import math

import attrs
import numpy as np
import pandas
from numpy.typing import NDArray
from sentbed_report.statistics.difference import holm
from sentbed_report.statistics.levels import SIGNIFICANT

from sentbed_audit.signed_ranks import signed_rank_p_values

Floats = NDArray[np.float64]


@attrs.frozen(eq=False)
class Claims:
    """The ranking by mean of the models that have all tasks, and the tests of all pairs."""

    scores: pandas.DataFrame
    """Scores `(models, tasks)`, the best mean first. They are multiplied by 100 if all are from -1 to 1."""
    p_values: Floats
    """`(models, models)`, in the order of `scores`; 1 on the diagonal."""
    corrected: Floats
    """P-values, corrected by Holm's method over all pairs, `(models, models)`."""

    @property
    def means(self) -> pandas.Series:
        """Mean over the tasks of each model."""
        return self.scores.mean(axis=1)

    @property
    def pairs(self) -> int:
        """Number of pairs of models."""
        return math.comb(len(self.scores), 2)

    @property
    def better(self) -> NDArray[np.bool_]:
        """Whether model i is better than model j, significantly after correction, `(models, models)`."""
        means = self.means.to_numpy()
        better: NDArray[np.bool_] = means[:, None] > means
        return better & (self.corrected < SIGNIFICANT)

    @property
    def rank_intervals(self) -> list[tuple[int, int]]:
        """The best and the worst possible rank of each model."""
        better = self.better
        lowest = 1 + better.sum(axis=0)
        highest = len(better) - better.sum(axis=1)
        return list(zip(lowest.tolist(), highest.tolist(), strict=True))

    @property
    def smallest_p_value(self) -> float:
        """Smallest p-value that the test over this number of tasks can have."""
        return float(2.0 ** (1 - self.scores.shape[1]))

    @property
    def tasks_needed(self) -> int:
        """Smallest number of tasks with which a pair can differ significantly after the correction."""
        return math.ceil(1 + math.log2(self.pairs / SIGNIFICANT))


def claims_of(table: pandas.DataFrame) -> Claims:
    """Return the ranking and the tests of the models that have all tasks.

    `table` has a row per model and a column per task, with NaN where a model lacks a task.

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

    values = scores.to_numpy(float)
    firsts, seconds = np.triu_indices(len(values), 1)
    of_pairs = signed_rank_p_values(values[firsts] - values[seconds])
    corrected_of_pairs = list(holm(dict(enumerate(of_pairs.tolist()))).values())
    p_values = np.ones((len(values), len(values)))
    corrected = np.ones_like(p_values)
    for matrix, numbers in ((p_values, of_pairs), (corrected, corrected_of_pairs)):
        matrix[firsts, seconds] = numbers
        matrix[seconds, firsts] = numbers
    return Claims(scores, p_values, corrected)
