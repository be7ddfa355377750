"""Power of a study's comparisons with its baseline, from the spread that its finished runs show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import attrs

from sentbed_report.study.power import (
    LEVEL,
    POWER,
    SeedsNeeded,
    Spread,
    seeds_needed,
    smallest_difference,
)
from sentbed_report.study.significance import Judged
from sentbed_report.study.summary_tables import Summary, SummaryRow

TIMES = (1, 2, 4)
"""Numbers of seeds to show, as multiples of the study's."""


@attrs.frozen
class ObservedPower:
    """Power of the comparisons in the last column of a table."""

    summary: Summary
    spread: Spread
    """Over seeds, pooled over the compared cells; over items, the root of the mean variance."""
    seeds: int
    """Number of seeds under which most cells were compared."""
    comparisons: int
    """Number of p-values that are corrected for: of cells compared with the baseline, times the looks of a
    study that stops cells."""

    def smallest(self, seeds: int, power: float = POWER, level: float = LEVEL) -> float:
        """Return the smallest true difference that so many seeds find; see `smallest_difference`."""
        return smallest_difference(self.spread, seeds, power, level, self.comparisons)

    def needed(self, difference: float, power: float = POWER, level: float = LEVEL) -> SeedsNeeded:
        """Return the number of seeds that a true difference needs; see `seeds_needed`."""
        return seeds_needed(self.spread, difference, power, level, self.comparisons)

    def needed_by(self, judged: Judged, power: float = POWER, level: float = LEVEL) -> SeedsNeeded:
        """Return the number of seeds that would separate a cell, if its true difference is the observed one.

        The spread over seeds is the pooled one, as that of one cell is hardly known from a few seeds; that
        over the items is the cell's own.
        """
        item_std = math.sqrt(judged.item_variance or 0.0)
        if self.spread.seed_std == item_std == 0:
            return SeedsNeeded(None, "neither seeds nor items vary")
        own = Spread(self.spread.seed_std, item_std, judged.item_degrees)
        return seeds_needed(own, judged.difference or 0.0, power, level, self.comparisons)


def observed_power(summaries: Sequence[Summary]) -> tuple[ObservedPower, ...]:
    """Return the power in the last column of each table that has a better and a worse.

    A table without comparisons under two seeds or more is left out: how much seeds differ is not known.
    """
    found = (_of(summary) for summary in summaries if summary.columns[-1].ranked)
    return tuple(one for one in found if one is not None)


def judged_rows(summary: Summary) -> list[tuple[SummaryRow, Judged]]:
    """Return the rows of a table whose last column was tested against the baseline."""
    rows = ((row, row.cells[-1].judged) for row in summary.rows)
    return [(row, judged) for row, judged in rows if judged is not None and judged.p_value is not None]


def _of(summary: Summary) -> ObservedPower | None:
    tested = [judged for _, judged in judged_rows(summary)]
    repeated = [(one.seed_variance, len(one.differences) - 1) for one in tested]
    known = [(variance, degrees) for variance, degrees in repeated if variance is not None]
    items = [one.item_variance for one in tested if one.item_variance is not None]
    if not known:
        return None
    pooled = sum(variance * degrees for variance, degrees in known) / sum(degrees for _, degrees in known)
    item_variance = sum(items) / len(items) if items else 0.0
    if pooled == item_variance == 0:
        return None
    counts = Counter(degrees + 1 for _, degrees in known)
    spread = Spread(math.sqrt(pooled), math.sqrt(item_variance), min(one.item_degrees for one in tested))
    return ObservedPower(
        summary, spread, max(counts, key=lambda n: (counts[n], n)), len(tested) * summary.looks
    )
