"""Ids and vectors of every family, pooler and form of prompt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from records import Number


def numbers(directory: Path) -> Iterator[Number]:
    """Yield numbers."""
    yield Number("one", 1)
