"""Seeds derived from the run's seed."""

from __future__ import annotations

import hashlib


def derive(seed: int, *words: str | int) -> int:
    """Return a 63-bit seed that depends on the run's seed and on `words`, which name its purpose."""
    digest = hashlib.sha256(repr((seed, *words)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
