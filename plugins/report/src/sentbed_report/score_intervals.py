"""Confidence intervals of one run's scores, and of their changes by training, over the items of the scores.

The method is that of studies, with one seed: Student's t interval from the influence of each item on the score.
Changes by training are paired by item.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

import attrs
from sentbed.protocols import START, Score

from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.score_protocols import evaluation_protocol
from sentbed_report.statistics.cell_scores import CellScores
from sentbed_report.statistics.difference import Judged, judge
from sentbed_report.statistics.score_interval import mean_interval

_RUN = (0, "")


@attrs.frozen
class ScoreInterval:
    """A score, its 95 % interval, and its comparison with the encoder before training."""

    score: Score
    interval: tuple[float, float]
    change: Judged | None
    """Comparison with the score before training; None if there is no such score, or the two cannot be paired."""


def score_intervals(scores: Sequence[Score]) -> tuple[ScoreInterval, ...]:
    """Return the interval of each score that has items and is not degenerate."""
    starts = _scores_before_training(scores)
    intervals = []
    for score in scores:
        if score.items is None or degenerate_of(score):
            continue
        scores_of_run = CellScores({_RUN: (score,)})
        interval, _ = mean_interval(scores_of_run)
        if interval is None:
            continue

        start = starts.get(id(score))
        change = None
        if start is not None:
            before = CellScores({_RUN: (start,)})
            change = judge([(-1.0, before), (1.0, scores_of_run)])
            if change.interval is None:
                change = None
        intervals.append(ScoreInterval(score, interval, change))
    return tuple(intervals)


def _scores_before_training(scores: Sequence[Score]) -> dict[int, Score]:
    """Return id of a score -> the same encoder's score before training, for the scores that have one."""
    groups: defaultdict[tuple[str, str], list[Score]] = defaultdict(list)
    for score in scores:
        key = (score.encoder, _evaluation(score))
        groups[key].append(score)

    starts: dict[int, Score] = {}
    for (encoder, evaluation), of_encoder in groups.items():
        before = groups.get((encoder + START, evaluation), [])
        # There are several if an evaluator scores the encoder twice, such as with and without whitening.
        # Both times, evaluations are made in the order of the recipe.
        if len(before) == len(of_encoder):
            starts |= dict(zip(map(id, of_encoder), before, strict=True))
    return starts


def _evaluation(score: Score) -> str:
    """Return what was measured, as text: evaluator, task, metric and the evaluation's protocol."""
    protocol = evaluation_protocol(score)
    return json.dumps([score.evaluator, score.task, score.metric, protocol])
