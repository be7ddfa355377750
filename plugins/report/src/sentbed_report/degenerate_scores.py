"""Degenerate scores, which say nothing about their encoder: in a study their values are missing (NaN)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import attrs
from sentbed.protocols import Score


def degenerate_of(score: Score) -> str:
    """Return why a score is degenerate; empty if it is not.

    The evaluator may declare it. Otherwise, a score is degenerate if the predictions for all its items are
    equal.
    """
    if score.degenerate:
        return score.degenerate
    if score.items is None or score.items.y is None:
        return ""

    predictions = score.items.y
    if len(predictions) > 1 and predictions.min() == predictions.max():
        return "all predictions are the same"
    return ""


def without_degenerate_values(scores: Iterable[Score]) -> tuple[Score, ...]:
    """Return scores in which the degenerate ones have the value NaN, and the reason in `degenerate`."""
    with_missing = []
    for score in scores:
        reason = degenerate_of(score)
        if not reason:
            with_missing.append(score)
            continue
        missing = attrs.evolve(score, value=math.nan, degenerate=reason)
        with_missing.append(missing)
    return tuple(with_missing)
