"""Scores that say nothing about their encoder, and so are neither ranked nor tested."""

from __future__ import annotations

from sentbed.protocols import Score


def degenerate_of(score: Score) -> str:
    """Return why a score is degenerate; empty if it is not.

    Evaluators say it of their scores. Of items with predictions it can be seen here: they are all the same.
    """
    if score.degenerate:
        return score.degenerate
    found = None if score.items is None else score.items.y
    if found is not None and len(found) > 1 and found.min() == found.max():
        return "all predictions are the same"
    return ""
