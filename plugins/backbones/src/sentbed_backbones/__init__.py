"""Backbones for sentbed: tokenizer + transformer, text -> token states."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Backbone

from sentbed_backbones.bert import Bert

__all__ = ["Bert", "backbones"]


@hookimpl
def backbones() -> list[type[Backbone]]:
    """Return the backbones of this distribution."""
    return [Bert]
