"""Rank intervals, computed from the pairs of rows that differ.

See Klein, Wright and Wieczorek (2020) and Mogstad et al. (2024). The best rank is 1 + the number of rows that
are significantly better, the worst rank is the number of rows minus those that are significantly worse. If no
test rejects wrongly, all true ranks lie in their intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from sentbed_report.statistics.significance import Judged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.bool_]

Pairs: TypeAlias = Mapping[tuple[int, int], Judged]
"""(Number of a row, number of a later row) -> comparison of the later row with the earlier one."""


def not_comparable(pairs: Pairs) -> dict[int, str]:
    """Return the rows to leave out, so that every pair of the other rows has a p-value: row -> reason.

    Rows are left out one by one. Each step leaves out the row with the most pairs that have no p-value; of
    several such rows, the last.
    """
    failed = {}
    for pair, judged in pairs.items():
        if judged.p_value is None:
            failed[pair] = judged.reason

    reasons: dict[int, str] = {}
    while failed:
        counts = Counter(chain.from_iterable(failed))
        worst = max(counts, key=lambda row: (counts[row], row))
        reasons_of_worst: dict[str, None] = {}
        for pair in list(failed):
            if worst in pair:
                reasons_of_worst[failed.pop(pair)] = None
        reasons[worst] = "; ".join(reasons_of_worst)
    return reasons


def significantly_better(
    pairs: Pairs,
    rows: int,
    lower: bool,
) -> Matrix:
    """Return a matrix `(rows, rows)`: whether row i is significantly better than row j.

    `lower` says whether lower scores are better.
    """
    import numpy as np

    better = np.zeros((rows, rows), bool)
    for (first, second), judged in pairs.items():
        difference = judged.difference
        if judged.significant and difference:
            second_wins = (difference < 0) == lower
            better[first, second] = not second_wins
            better[second, first] = second_wins
    return better


def rank_intervals(better: Matrix) -> list[tuple[int, int]]:
    """Return each row's best and worst possible rank; `better[i, j]` says whether row i is better than row j."""
    lowest = 1 + better.sum(axis=0)
    highest = len(better) - better.sum(axis=1)
    return list(zip(lowest.tolist(), highest.tolist(), strict=True))
