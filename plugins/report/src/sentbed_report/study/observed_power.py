"""Power of a study's comparisons with its baseline, from the variances that its finished runs show."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from sentbed_report.statistics.power import (
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
"""Numbers of seeds for which the power is shown, as multiples of the study's number of seeds."""


@attrs.frozen
class ObservedPower:
    """Power of the comparisons with the baseline in the last column of a table."""

    summary: Summary
    spread: Spread
    """Standard deviations of the difference over seeds, items and prompts, averaged over these comparisons; see
    `observed_spread`."""
    seeds: int
    """The most frequent number of seeds of these comparisons."""
    comparisons: int
    """Number of p-values that are corrected together (see `StudyData.family`)."""

    def smallest(self, seeds: int) -> float:
        """Return the smallest true difference that is significant with `seeds` seeds and a power of 0.8."""
        return smallest_difference(self.spread, seeds, comparisons=self.comparisons)

    def needed_by(self, judged: Judged) -> SeedsNeeded:
        """Return the number of seeds with which a cell would differ significantly from the baseline.

        With this number of seeds, the difference is significant with a probability of at least 0.8. The
        observed difference is taken to be the true one. The variances over seeds and prompts are pooled over
        cells, since a few seeds hardly show those of a single cell; the variance over items is the cell's own.
        """
        spread = self._spread_of(judged)
        if spread is None:
            return SeedsNeeded(None, "neither seeds nor items vary")
        difference = judged.difference or 0.0
        return seeds_needed(spread, difference, comparisons=self.comparisons)

    def prompts_needed_by(self, judged: Judged) -> SeedsNeeded:
        """Return the number of prompts with which a cell would differ significantly from the baseline.

        The number of seeds stays that of the study; for all else, see `needed_by`.
        """
        spread = self._spread_of(judged)
        if spread is None:
            return SeedsNeeded(None, "neither prompts nor items vary")
        difference = judged.difference or 0.0
        return prompts_needed(
            spread, difference, self.seeds, comparisons=self.comparisons
        )

    def _spread_of(self, judged: Judged) -> Spread | None:
        """Return the standard deviations of one comparison; None if neither seeds, prompts nor items vary."""
        item_std = math.sqrt(judged.item_variance or 0.0)
        if self.spread.seed_std == self.spread.prompt_std == item_std == 0:
            return None
        return attrs.evolve(
            self.spread, item_std=item_std, item_degrees=judged.item_degrees
        )


def observed_power(summaries: Sequence[Summary]) -> tuple[ObservedPower, ...]:
    """Return the power in the last column of each table in which higher, or lower, scores are better.

    Tables without a comparison under at least two seeds are left out, since the spread over seeds is then
    unknown.
    """
    powers = []
    for summary in summaries:
        if not summary.columns[-1].ranked:
            continue
        judged = [judged for _, judged in judged_rows(summary)]
        observed = observed_spread(judged)
        if observed is not None:
            comparisons = len(judged)
            if summary.family == "study":
                comparisons = summary.tests_in_study
            powers.append(ObservedPower(summary, *observed, comparisons))
    return tuple(powers)


def judged_rows(summary: Summary) -> list[tuple[SummaryRow, Judged]]:
    """Return the rows that were tested against the baseline in the last column, each with its test."""
    rows = []
    for row in summary.rows:
        judged = row.cells[-1].judged
        if judged is not None and judged.p_value is not None:
            rows.append((row, judged))
    return rows
