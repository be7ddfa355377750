"""Wilcoxon's signed-rank test of many pairs of models at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]

MOST_EXACT = 50
"""Maximum number of differences for an exact p-value, without zeros and ties. scipy has the same limit."""

MOST_PERMUTED = 13
"""Maximum number of differences, with zeros or ties, of which scipy tries all combinations of signs."""


def signed_rank_p_values(differences: Floats) -> Floats:
    """Return the two-sided p-values `(pairs,)` of differences `(pairs, tasks)`, as scipy has them pair by pair.

    Zeros are left out (Wilcoxon, 1945). The p-value is 1 if all differences are 0.
    """
    sizes = np.sort(np.abs(differences), axis=1)
    counts = (sizes > 0).sum(axis=1)
    has_zeros = sizes[:, 0] == 0
    has_ties = (np.diff(sizes, axis=1) == 0).any(axis=1)
    is_exact = ~has_ties & ~has_zeros & (counts <= MOST_EXACT)
    is_permuted = ~is_exact & (counts > 0) & (counts <= MOST_PERMUTED)
    is_normal = ~is_exact & (counts > MOST_PERMUTED)

    # A call for each of 5,000 pairs would take minutes.
    p_values = np.ones(len(differences))
    if is_exact.any():
        exact = stats.wilcoxon(differences[is_exact], axis=1, method="exact")
        p_values[is_exact] = exact.pvalue
    if is_normal.any():
        normal = stats.wilcoxon(differences[is_normal], axis=1, method="asymptotic")
        p_values[is_normal] = normal.pvalue
    # scipy tries all combinations of signs only for few pairs, so it is called for each.
    for row in np.flatnonzero(is_permuted):
        p_values[row] = stats.wilcoxon(differences[row]).pvalue
    return p_values
