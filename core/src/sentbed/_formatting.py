"""Number formatting."""

from __future__ import annotations

import math
from collections.abc import Iterable


def score_digits(values: Iterable[float]) -> int:
    """Return the decimals to print: 2 on the papers' scale of 100, 3 for small values such as alignment."""
    return 2 if max((abs(value) for value in values if math.isfinite(value)), default=100.0) >= 10 else 3
