"""Rank intervals, computed from the pairs of rows that differ.

See Klein, Wright and Wieczorek (2020) and Mogstad et al. (2024). The best rank is 1 + the number of rows that
are significantly better, the worst rank is the number of rows minus those that are significantly worse. If no
test rejects wrongly, all true ranks lie in their intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.bool_]


def rank_intervals(better: Matrix) -> list[tuple[int, int]]:
    """Return each row's best and worst possible rank; `better[i, j]` says whether row i is better than row j."""
    lowest = 1 + better.sum(axis=0)
    highest = len(better) - better.sum(axis=1)
    return list(zip(lowest.tolist(), highest.tolist(), strict=True))
