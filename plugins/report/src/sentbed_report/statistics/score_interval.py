"""The interval of a score itself, over its items, seeds and prompts."""

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
    scores: Scored, store: ComponentStore, confidence: float = CONFIDENCE
) -> Judged:
    """Return a mean over seeds with its interval, over the items where all seeds have the same ones.

    Prompts of a sample count in either case. The interval ends where the metric does, as no mean lies beyond.
    """
    judged = weighted_sum([(1.0, scores)], store)
    if judged.reason:
        # Other items under each seed: what they add is in the spread over the seeds. Prompts are a source
        # still.
        try:
            prompts = sums_under_prompts([(1.0, scores)], list(scores))
        except RunError:
            # Under each seed other prompts: the intervals would be of nothing in particular.
            return judged
        values = {seed: score.value for seed, score in scores.items()}
        judged = Judged(values, prompts=prompts)
    judged = with_test(judged, confidence)
    if judged.interval is None:
        return judged
    (low, high), (least, most) = judged.interval, _range(scores)
    return attrs.evolve(judged, interval=(max(low, least), min(high, most)))


def _range(scores: Scored) -> tuple[float, float]:
    """Return the least and the largest value that a mean of these scores can have."""
    lows, highs = [], []
    for part in chain.from_iterable(map(parts_of, scores.values())):
        low, high = -math.inf, math.inf
        if part.items is not None:
            low, high = part.items.range()
        lows.append(low)
        highs.append(high)
    return fmean(lows), fmean(highs)
