"""Scores that say nothing about their encoder, and so are neither ranked nor tested."""

from __future__ import annotations

from sentbed.protocols import Score


def degenerate_of(score: Score) -> str:
    """Return why a score is degenerate; empty if it is not.

    Evaluators say it of their scores. Of items with predictions it can be seen here: they are all the same.
    """
    if score.degenerate:
        return score.degenerate
    predictions = None if score.items is None else score.items.y
    if (
        predictions is not None
        and len(predictions) > 1
        and predictions.min() == predictions.max()
    ):
        return "all predictions are the same"
    return ""
