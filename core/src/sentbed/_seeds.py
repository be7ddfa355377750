"""Seeds derived from the run's seed."""

from __future__ import annotations

import hashlib


def derive(seed: int, *words: str | int) -> int:
    """Return a 63-bit seed for the purpose named by `words`."""
    digest = hashlib.sha256(repr((seed, *words)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
