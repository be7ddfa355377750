"""Seeds of random generators, derived from the seed of the run."""

from __future__ import annotations

import hashlib


def derive(seed: int, *words: str | int) -> int:
    """Return a 63-bit seed for a purpose, derived from the run's seed. `words` name the purpose."""
    digest = hashlib.sha256(repr((seed, *words)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
