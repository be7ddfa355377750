"""Degenerate scores, which say nothing about their encoder and are neither ranked nor tested."""

from __future__ import annotations

from sentbed.protocols import Score


def degenerate_of(score: Score) -> str:
    """Return why a score is degenerate; empty if it is not.

    Evaluators may declare it. It is also recognised here if all predictions of its items are equal.
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
