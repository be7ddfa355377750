"""Evaluators: semantic textual similarity and the geometry of an embedding space."""

from __future__ import annotations

from sentbed import hookimpl

from sentbed_evaluators.geometry import Geometry
from sentbed_evaluators.senteval_sts import SentEvalSTS
from sentbed_evaluators.sts import STS

__all__ = ["STS", "Geometry", "SentEvalSTS"]


@hookimpl
def evaluators() -> list[type]:
    """Return the evaluators of this distribution."""
    return [SentEvalSTS, STS, Geometry]
