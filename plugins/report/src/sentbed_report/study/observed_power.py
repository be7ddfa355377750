"""Power of a study's comparisons with its baseline, from the variances that its finished runs show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import attrs

from sentbed_report.statistics.difference import Difference
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
    of_seeds = []
    of_prompts = []
    of_items = []
    item_degrees = math.inf
    for difference in differences:
        for name, source in difference.sources.items():
            variance = difference.stds[name] ** 2
            if name == "items":
                of_items.append(variance)
                item_degrees = min(item_degrees, source.degrees)
            elif name == "seeds":
                of_seeds.append((variance, int(source.degrees) + 1))
            else:
                of_prompts.append((variance, int(source.degrees) + 1))

    if not of_seeds:
        return None
    seed_variance, seeds = _pooled(of_seeds)
    prompt_variance, prompts = 0.0, 1
    if of_prompts:
        prompt_variance, prompts = _pooled(of_prompts)
    item_variance = 0.0
    if of_items:
        item_variance = sum(of_items) / len(of_items)
    if seed_variance == item_variance == prompt_variance == 0:
        return None

    spread = Spread(
        math.sqrt(seed_variance),
        math.sqrt(item_variance),
        item_degrees,
        math.sqrt(prompt_variance),
        prompts,
    )
    return spread, seeds


def _pooled(samples: Sequence[tuple[float, int]]) -> tuple[float, int]:
    """Return the pooled variance of samples, each a variance and a size, and their most frequent size."""
    squares = 0.0
    degrees = 0
    sizes: Counter[int] = Counter()
    for variance, size in samples:
        sizes[size] += 1
        squares += variance * (size - 1)
        degrees += size - 1
    most_frequent = max(sizes, key=lambda size: (sizes[size], size))
    return squares / degrees, most_frequent
