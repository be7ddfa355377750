"""Power of a study's comparisons with its baseline, from the variances that its finished runs show."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import attrs

from sentbed_report.statistics.difference import REPLICATES, Difference
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.statistics.power import Spread, smallest_difference
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
    """Number of these comparisons."""
    shares: int
    """Number of equal shares of the level of which each comparison has one; see `corrected`."""

    def smallest(self, seeds: int) -> float:
        """Return the smallest true difference that is significant with `seeds` seeds and a power of 0.8."""
        return smallest_difference(self.spread, seeds, comparisons=self.shares)


def observed_power(summaries: Sequence[Summary]) -> tuple[ObservedPower, ...]:
    """Return the power in the last column of each table in which higher, or lower, scores are better.

    Tables without a comparison under at least two seeds are left out, since the spread over seeds is then
    unknown.
    """
    powers = []
    for summary in summaries:
        if not summary.columns[-1].ranked:
            continue
        estimates = []
        shares = 1
        for row in summary.rows:
            judged = row.cells[-1].judged
            if judged is not None and judged.tested is not None:
                estimates.append(judged.tested)
                shares = round(SIGNIFICANT / judged.level)
        observed = observed_spread(estimates)
        if observed is not None:
            comparisons = len(estimates)
            powers.append(ObservedPower(summary, *observed, comparisons, shares))
    return tuple(powers)


def observed_spread(differences: Sequence[Difference]) -> tuple[Spread, int] | None:
    """Return the average spread of differences, and the most frequent number of seeds among them.

    Variances over seeds and over prompts are pooled, variances over items are averaged. The result is None if
    no difference has two seeds or more, since the standard deviation over seeds is then unknown. It is also
    None if nothing varies.
    """
    squares: defaultdict[str, float] = defaultdict(float)
    weights: defaultdict[str, float] = defaultdict(float)
    degrees: defaultdict[str, Counter[float]] = defaultdict(Counter)
    for difference in differences:
        for name, source in difference.sources.items():
            weight = 1.0
            if name in REPLICATES:
                weight = source.degrees
            squares[name] += weight * difference.stds[name] ** 2
            weights[name] += weight
            degrees[name][source.degrees] += 1
    if "seeds" not in squares or not any(squares.values()):
        return None

    stds: defaultdict[str, float] = defaultdict(float)
    for name, square in squares.items():
        stds[name] = math.sqrt(square / weights[name])
    prompts = 1
    if "prompts" in degrees:
        prompts = int(_most_frequent(degrees["prompts"])) + 1
    spread = Spread(
        stds["seeds"],
        stds["items"],
        min(degrees["items"], default=math.inf),
        stds["prompts"],
        prompts,
    )
    return spread, int(_most_frequent(degrees["seeds"])) + 1


def _most_frequent(counts: Counter[float]) -> float:
    """Return the most frequent number, of equally frequent ones the largest."""
    return max(counts, key=lambda number: (counts[number], number))
