"""Power of a study's comparisons with its baseline, computed from the spread of its finished runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from sentbed_report.statistics.power import (
    LEVEL,
    POWER,
    SeedsNeeded,
    Spread,
    observed_spread,
    prompts_needed,
    seeds_needed,
    smallest_difference,
)
from sentbed_report.statistics.significance import Judged
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary

TIMES = (1, 2, 4)
"""Numbers of seeds to show, as multiples of the study's number of seeds."""


@attrs.frozen
class ObservedPower:
    """Power of the comparisons in the last column of a table."""

    summary: Summary
    spread: Spread
    """Spread over seeds, pooled over the compared cells; over items, the root of the mean variance."""
    seeds: int
    """Number of seeds under which most cells were compared."""
    comparisons: int
    """Number of p-values in the correction: compared cells, times the looks of a study that stops cells."""

    @property
    def hangs_on_prompts(self) -> bool:
        """Whether prompts are a larger source of the variance of differences than seeds."""
        of_prompts = self.spread.prompt_std**2 / self.spread.prompts
        return of_prompts > self.spread.seed_std**2 / self.seeds

    def smallest(self, seeds: int, power: float = POWER, level: float = LEVEL) -> float:
        """Return the smallest true difference that `seeds` seeds find; see `smallest_difference`."""
        return smallest_difference(self.spread, seeds, power, level, self.comparisons)

    def needed_by(
        self, judged: Judged, power: float = POWER, level: float = LEVEL
    ) -> SeedsNeeded:
        """Return the number of seeds with which a cell would differ significantly from the baseline.

        The true difference is taken to be the observed one. Spreads over seeds and prompts are the pooled ones,
        as a few seeds hardly show the spread of a single cell; the spread over items is that of the cell.
        """
        spread = self._spread_of(judged)
        if spread is None:
            return SeedsNeeded(None, "neither seeds nor items vary")
        return seeds_needed(
            spread, judged.difference or 0.0, power, level, self.comparisons
        )

    def prompts_needed_by(
        self, judged: Judged, power: float = POWER, level: float = LEVEL
    ) -> SeedsNeeded:
        """Return the number of prompts, with the study's seeds, with which a cell would differ significantly."""
        spread = self._spread_of(judged)
        if spread is None:
            return SeedsNeeded(None, "neither prompts nor items vary")
        difference = judged.difference or 0.0
        return prompts_needed(
            spread, difference, self.seeds, power, level, self.comparisons
        )

    def _spread_of(self, judged: Judged) -> Spread | None:
        """Return the spread of one comparison; None if nothing varies."""
        item_std = math.sqrt(judged.item_variance or 0.0)
        if self.spread.seed_std == self.spread.prompt_std == item_std == 0:
            return None
        return attrs.evolve(
            self.spread, item_std=item_std, item_degrees=judged.item_degrees
        )


def observed_power(summaries: Sequence[Summary]) -> tuple[ObservedPower, ...]:
    """Return the power in the last column of each table whose last column has a direction.

    Tables without comparisons under at least two seeds are left out, as the spread over seeds is unknown.
    """
    powers = []
    for summary in summaries:
        if not summary.columns[-1].ranked:
            continue
        judged = [judged for _, judged in judged_rows(summary)]
        observed = observed_spread(judged)
        if observed is not None:
            comparisons = len(judged) * summary.looks
            powers.append(ObservedPower(summary, *observed, comparisons))
    return tuple(powers)


def judged_rows(summary: Summary) -> list[tuple[SummaryRow, Judged]]:
    """Return the rows of a table whose last column was tested against the baseline."""
    rows = []
    for row in summary.rows:
        judged = row.cells[-1].judged
        if judged is not None and judged.p_value is not None:
            rows.append((row, judged))
    return rows
