"""Wilcoxon's signed-rank test for many pairs of models at once; each pair may have other tasks in common.

`scipy.stats.wilcoxon` is the same test. But it needs a call for each pair, which takes minutes for 5,000 pairs.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]

MOST_EXACT = 50
"""Maximum number of differences for an exact p-value, without zeros and ties. scipy has the same limit."""

MOST_PERMUTED = 13
"""Maximum number of differences, with zeros or ties, of which scipy tries all combinations of signs."""


def signed_rank_p_values(differences: Floats) -> Floats:
    """Return the two-sided p-values `(pairs,)` of differences `(pairs, tasks)`.

    A difference is NaN if the pair does not share the task. Zeros are left out (Wilcoxon, 1945). The p-value is
    1 if all differences are 0, and NaN if no task is shared.
    """
    sizes = np.abs(differences)
    counts = (sizes > 0).sum(axis=1)
    # Differences that are left out get the last ranks, so that the other ranks do not change.
    ranks = stats.rankdata(np.where(sizes > 0, sizes, np.inf), axis=1)
    statistics = np.where(differences > 0, ranks, 0.0).sum(axis=1)
    ties = _tie_terms(sizes)
    p_values = _normal_p_values(statistics, counts, ties)

    has_ties = ties > 0
    has_zeros = (sizes == 0).any(axis=1)
    is_exact = (counts > 0) & (counts <= MOST_EXACT)
    is_exact &= ~has_ties & ~has_zeros
    for count in np.unique(counts[is_exact]):
        rows = np.flatnonzero(is_exact & (counts == count))
        p_values[rows] = _exact_p_values(statistics[rows], int(count))

    # All combinations of signs are tried only for few pairs, so scipy is called for each.
    is_permuted = (has_ties | has_zeros) & (counts > 0) & (counts <= MOST_PERMUTED)
    for row in np.flatnonzero(is_permuted):
        shared = differences[row][np.isfinite(differences[row])]
        p_values[row] = stats.wilcoxon(shared).pvalue

    p_values[np.isnan(differences).all(axis=1)] = np.nan
    return p_values


def _tie_terms(sizes: Floats) -> Floats:
    """Return, for each pair, the sum of t^3 - t over its groups of equal absolute differences above 0.

    t is the number of differences in a group.
    """
    ordered = np.sort(np.where(sizes > 0, sizes, np.nan), axis=1)
    terms = np.zeros(len(sizes))
    run = np.ones(len(sizes))
    for task in range(1, ordered.shape[1]):
        is_equal = ordered[:, task] == ordered[:, task - 1]
        run = np.where(is_equal, run + 1, 1)
        # If a group grows from t - 1 to t, t^3 - t grows by 3 t (t - 1).
        terms += np.where(is_equal, 3 * run * (run - 1), 0)
    return terms


def _normal_p_values(
    statistics: Floats,
    counts: NDArray[np.int64],
    ties: Floats,
) -> Floats:
    """Return the two-sided p-values of the normal approximation, corrected for ties."""
    expected = counts * (counts + 1) / 4
    without_ties = expected * (2 * counts + 1) / 6
    variances = without_ties - ties / 48
    positive_variances = np.where(variances > 0, variances, np.inf)
    scores = np.abs(statistics - expected) / np.sqrt(positive_variances)
    return np.asarray(2 * stats.norm.sf(scores))


def _exact_p_values(statistics: Floats, count: int) -> Floats:
    """Return the exact two-sided p-values of statistics of `count` differences.

    A statistic is the sum of the ranks of the positive differences.
    """
    below = _distribution(count)
    most = count * (count + 1) // 2
    least = np.minimum(statistics, most - statistics).astype(np.int64)
    return np.minimum(2 * below[least], 1.0)


@cache
def _distribution(count: int) -> Floats:
    """Return the cumulative distribution of the statistic of `count` differences, for the values 0, 1, 2, ..."""
    probabilities = np.ones(1)
    for rank in range(1, count + 1):
        if_positive = np.concatenate([np.zeros(rank), probabilities])
        if_negative = np.concatenate([probabilities, np.zeros(rank)])
        probabilities = (if_positive + if_negative) / 2
    return np.cumsum(probabilities)
