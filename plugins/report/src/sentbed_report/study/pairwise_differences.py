"""Differences between every two cells of a column, judged as `significance.py` judges against a baseline.

The components of each score are computed once, so that a pair costs a subtraction a seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Generic

import attrs

from sentbed_report.item_components import ComponentStore
from sentbed_report.study.significance import (
    RESAMPLES,
    Judged,
    Key,
    Scored,
    compared,
    corrected,
    with_test,
)


@attrs.frozen(eq=False, repr=False)
class TableScores(Generic[Key]):
    """Scores of a table's rows in its last column."""

    column: Mapping[Key, Scored]
    """Row -> seed -> score."""
    components: ComponentStore
    """Components of the scores, which several tests share."""

    def pairs(self, rows: Sequence[Key]) -> dict[tuple[Key, Key], Judged]:
        """Compare every two of `rows`, the second with the first; see `judge_pairs`."""
        return judge_pairs({row: self.column.get(row, {}) for row in rows}, self.components)


def judge_pairs(
    cells: Mapping[Key, Scored], components: ComponentStore | None = None
) -> dict[tuple[Key, Key], Judged]:
    """Compare every two cells in one column, the second with the first, seed by seed.

    P-values are corrected for all pairs (Holm, 1979). Whether a score is degenerate is not looked at.
    """
    store = components or ComponentStore(RESAMPLES)
    found = {}
    for first, second in combinations(cells, 2):
        before, after = cells[first], cells[second]
        pairs = {seed: (before[seed], after[seed]) for seed in before if seed in after}
        unpaired = tuple(sorted(before.keys() ^ after.keys()))
        found[first, second] = attrs.evolve(with_test(compared(pairs, store)), unpaired=unpaired)
    return corrected(found)
