"""Whether a score is on development or test data, by its protocol."""

from __future__ import annotations

from sentbed.protocols import Score

DEVELOPMENT = frozenset(("train", "dev", "development", "validation"))
"""Values of `split` in a protocol for data by which weights, and the best cell of a study, may be chosen."""


def is_development(score: Score) -> bool:
    """Whether a score is on development or training data, according to its protocol."""
    return str(score.evaluator_protocol.get("split", "")) in DEVELOPMENT
