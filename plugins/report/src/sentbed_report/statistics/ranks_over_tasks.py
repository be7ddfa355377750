"""Ranks of rows over many tasks: Friedman's test and Nemenyi's critical difference (Demšar, 2006).

Both answer whether other tasks would give the same order. The tasks are the blocks of the test; the variance of
a score over its items and seeds is not considered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from sentbed_report.statistics.levels import SIGNIFICANT


@attrs.frozen
class Friedman:
    """Result of Friedman's test, with Nemenyi's critical difference."""

    statistic: float
    p_value: float
    """p-value by the chi-squared distribution; 1 if all rows are equal on each task."""
    ranks: tuple[float, ...]
    """Mean rank of each row, 1 for the best; equal scores share the mean of their ranks."""
    critical: float
    """Nemenyi's critical difference of mean ranks at a level of 5 %."""


def friedman(values: Sequence[Sequence[float]]) -> Friedman:
    """Return the result of Friedman's test.

    `values` are scores, `(rows, tasks)`, of at least three rows; higher scores are better.
    """
    import numpy as np
    from scipy import stats

    table = np.array(values, float)
    rows, tasks = table.shape
    statistic = 0.0
    p_value = 1.0
    # The correction for ties divides by zero if all values are ties.
    if (table != table[0]).any():
        statistic, p_value = map(float, stats.friedmanchisquare(*table))

    ranks = stats.rankdata(-table, axis=0).mean(axis=1)
    quantile = stats.studentized_range.ppf(1 - SIGNIFICANT, rows, np.inf) / math.sqrt(2)
    critical = float(quantile) * math.sqrt(rows * (rows + 1) / (6 * tasks))
    return Friedman(statistic, p_value, tuple(ranks.tolist()), critical)


def nemenyi_groups(
    ranks: Sequence[float],
    critical: float,
    p_value: float = 0.0,
) -> tuple[tuple[int, ...], ...]:
    """Return the maximal groups of rows whose mean ranks differ by less than `critical`.

    `ranks` are sorted, the best first. A group consists of indices into `ranks`. If Friedman's `p_value` is not
    below 0.05, all rows are one group.
    """
    if p_value >= SIGNIFICANT:
        return (tuple(range(len(ranks))),)
    groups: list[tuple[int, ...]] = []
    last = -1
    for first in range(len(ranks)):
        end = first + 1
        while end < len(ranks) and ranks[end] - ranks[first] < critical:
            end += 1
        # A group that ends where an earlier one does is a subset of it.
        if end - 1 > last:
            groups.append(tuple(range(first, end)))
            last = end - 1
    return tuple(groups)
