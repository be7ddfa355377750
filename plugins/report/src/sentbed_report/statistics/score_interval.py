"""Confidence interval of a mean score (not of a difference), over its items, seeds and prompts."""

from __future__ import annotations

import math
from itertools import chain
from statistics import fmean

from sentbed_report.statistics.cell_scores import CellScores
from sentbed_report.statistics.difference import Judged, judge
from sentbed_report.statistics.levels import CONFIDENCE


def mean_interval(
    scores: CellScores, confidence: float = CONFIDENCE
) -> tuple[tuple[float, float] | None, Judged]:
    """Return the interval of the mean over the runs, within the range of the metric, and its estimate.

    The interval is None if the scores cannot be averaged, or if nothing varies.
    """
    from sentbed_common import score_range

    judged = judge([(1.0, scores)])
    if judged.tested is None:
        return None, judged

    smallest = []
    largest = []
    for score in chain.from_iterable(scores.of_runs.values()):
        low, high = -math.inf, math.inf
        if score.items is not None:
            low, high = score_range(score.items)
        smallest.append(low)
        largest.append(high)
    low, high = judged.tested.interval(1 - confidence)
    return (max(low, fmean(smallest)), min(high, fmean(largest))), judged
