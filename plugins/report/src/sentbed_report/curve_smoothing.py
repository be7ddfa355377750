"""Smoothing and downsampling of curves for plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

BUCKETS = 500
"""Number of buckets; longer curves are drawn as the extremes of each bucket, which keeps spikes."""


def finite(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points with two finite coordinates."""
    pairs = ((x, float(y)) for x, y in points)
    return [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]


def padded_range(values: Iterable[float], margin: float = 0.05) -> tuple[float, float]:
    """Return minimum and maximum, extended on both sides by `margin` times their distance."""
    found = list(values)
    low, high = min(found), max(found)
    pad = (high - low or abs(high) or 1.0) * margin
    return low - pad, high + pad


def smoothed(points: Sequence[tuple[float, float]], reach: int) -> list[tuple[float, float]]:
    """Return the centred moving average over up to `reach` neighbours per side."""
    totals = [0.0, *accumulate(value for _, value in points)]
    result = []
    for index, (step, _) in enumerate(points):
        near = min(reach, index, len(points) - 1 - index)
        result.append((step, (totals[index + near + 1] - totals[index - near]) / (2 * near + 1)))
    return result


def thinned(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return x and y, reduced to the minimum and maximum of y in each of `BUCKETS` buckets."""
    shown: Iterable[tuple[float, float]] = points
    if len(points) > 2 * BUCKETS:
        cuts = [i * len(points) // BUCKETS for i in range(BUCKETS + 1)]
        buckets = [points[start:end] for start, end in pairwise(cuts)]
        shown = [
            point
            for bucket in buckets
            for point in sorted({min(bucket, key=lambda p: p[1]), max(bucket, key=lambda p: p[1])})
        ]
    return [x for x, _ in shown], [y for _, y in shown]
