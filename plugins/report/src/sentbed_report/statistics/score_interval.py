"""Confidence interval of a mean score (not of a difference), over its items, seeds and prompts."""

from __future__ import annotations

import math
from itertools import chain
from statistics import fmean

import attrs
from sentbed.errors import RunError

from sentbed_report.statistics.item_components import ComponentStore, parts_of
from sentbed_report.statistics.levels import CONFIDENCE
from sentbed_report.statistics.significance import (
    Judged,
    Scored,
    sums_under_prompts,
    weighted_sum,
    with_test,
)


def judged_mean(
    scores: Scored,
    store: ComponentStore,
    confidence: float = CONFIDENCE,
) -> Judged:
    """Return the mean over seeds with its interval, which is clipped to the range of the metric.

    The interval accounts for the choice of items if all seeds have the same items, and for the choice of
    prompts if these are a sample.
    """
    judged = weighted_sum([(1.0, scores)], store)
    if judged.reason:
        # If each seed has items of its own, the spread over the seeds contains the variance over items.
        try:
            prompts = sums_under_prompts([(1.0, scores)], list(scores))
        except RunError:
            # If each seed has prompts of its own, there is no mean over the seeds for a prompt.
            return judged
        values = {seed: score.value for seed, score in scores.items()}
        judged = Judged(values, prompts=prompts)

    judged = with_test(judged, confidence)
    if judged.interval is None:
        return judged
    low, high = judged.interval
    smallest, largest = _range_of_mean(scores)
    return attrs.evolve(judged, interval=(max(low, smallest), min(high, largest)))


def _range_of_mean(scores: Scored) -> tuple[float, float]:
    """Return the smallest and the largest value that the mean of these scores can have."""
    from sentbed_common import score_range

    smallest = []
    largest = []
    for part in chain.from_iterable(map(parts_of, scores.values())):
        low, high = -math.inf, math.inf
        if part.items is not None:
            low, high = score_range(part.items)
        smallest.append(low)
        largest.append(high)
    return fmean(smallest), fmean(largest)
