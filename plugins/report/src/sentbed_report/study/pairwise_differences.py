"""Differences between every two cells of a column, judged as `significance.py` judges against a baseline.

Each score is resampled once and the draws of a cell are averaged over its seeds once, so that a pair costs a
subtraction: what takes the time is the resampling, and not the number of pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Generic

import attrs

from sentbed_report.study.significance import (
    Draws,
    Judged,
    Key,
    Scored,
    compared,
    corrected,
    judge_average,
    with_test,
)


@attrs.frozen(eq=False, repr=False)
class TableScores(Generic[Key]):
    """Scores of a table's rows, in the columns that are compared."""

    columns: tuple[Mapping[Key, Scored], ...]
    """Row -> seed -> score, of each column that is no cost; the last one is compared."""
    average: bool
    """Whether the last column is the average of the others."""
    draws: Draws
    """Resampled scores, which several tests share."""

    def pairs(self, rows: Sequence[Key]) -> dict[tuple[Key, Key], Judged]:
        """Compare every two of `rows`, the second with the first; see `judge_pairs`."""
        columns = [{row: column.get(row, {}) for row in rows} for column in self.columns]
        return judge_pairs(columns, self.average, self.draws)


def judge_pairs(
    columns: Sequence[Mapping[Key, Scored]], average: bool = False, draws: Draws | None = None
) -> dict[tuple[Key, Key], Judged]:
    """Compare every two cells in the last column, the second with the first, seed by seed.

    With `average`, the last column is the mean of the others, as in `judge_average`. P-values are corrected
    for all pairs (Holm, 1979). Whether a score is degenerate is not looked at.
    """
    drawn = draws or Draws()
    own = {pair: with_test(found) for pair, found in _differences(columns[-1], drawn).items()}
    if not average or len(columns) < 2:
        return corrected(own)
    tasks = [_differences(column, drawn) for column in columns[:-1]]
    return judge_average(tasks, {pair: found for pair, found in own.items() if found.differences})


def _differences(cells: Mapping[Key, Scored], draws: Draws) -> dict[tuple[Key, Key], Judged]:
    found = {}
    for first, second in combinations(cells, 2):
        before, after = cells[first], cells[second]
        pairs = {seed: (before[seed], after[seed]) for seed in before if seed in after}
        unpaired = tuple(sorted(before.keys() ^ after.keys()))
        found[first, second] = attrs.evolve(compared(pairs, draws), unpaired=unpaired)
    return found
