"""Seeds that follow from the run's."""

from __future__ import annotations

import hashlib


def derive(seed: int, *words: str | int) -> int:
    """Return a seed of 63 bits for the purpose that `words` name; others name other seeds."""
    digest = hashlib.sha256(repr((seed, *words)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
