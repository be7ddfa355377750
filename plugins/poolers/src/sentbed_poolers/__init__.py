"""Poolers for sentbed: token states -> one vector a sentence."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Pooler

from sentbed_poolers.first import First
from sentbed_poolers.mean import Mean

__all__ = ["First", "Mean", "poolers"]


@hookimpl
def poolers() -> list[type[Pooler]]:
    """Return the poolers of this distribution."""
    return [First, Mean]
