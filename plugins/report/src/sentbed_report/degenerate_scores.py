"""Degenerate scores, which say nothing about their encoder; they are neither ranked nor tested."""

from __future__ import annotations

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
