"""Components of a score's variance over its items: a vector whose squares sum to that variance.

Each independent item, or cluster of items, has one component. Scores on the same items have components in the
same order, so that those of a difference or a mean of scores are the difference or the mean of theirs. If an
item occurs in several tasks, its components in their mean are added before they are squared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed.statistics.named_statistics import Floats


@attrs.frozen
class Block:
    """Components of one task."""

    size: int
    degrees: float
    """Degrees of freedom of the sum of their squares."""


@attrs.frozen(eq=False)
class ItemComponents:
    """Components of one score, or of the mean of a run's scores."""

    values: Floats
    """`(components,)`, in the unit of the score, task after task."""
    blocks: tuple[Block, ...]
    """One per task, in the order of `values`."""
    names: NDArray[np.int64] | None
    """Identities of the items or clusters of a single task; None without identities or for several tasks."""
    shared: NDArray[np.int64] | None = None
    """Index of the item that each component belongs to, if tasks share items."""

    def variance(self, values: Floats) -> float:
        """Return the variance of a score over the same items with the components `values`."""
        import numpy as np

        if self.shared is not None:
            values = np.bincount(self.shared, values).astype(float)
        return float(values @ values)

    def degrees(self, values: Floats) -> float:
        """Return the degrees of freedom of `variance(values)`; infinite if it is 0.

        They are Satterthwaite's if tasks share no items; otherwise the smallest of any task, which is a lower
        bound.
        """
        parts = []
        start = 0
        for block in self.blocks:
            part = values[start : start + block.size]
            start += block.size
            if part.any():
                parts.append((float(part @ part), block.degrees))
        if self.shared is not None:
            return min((degrees for _, degrees in parts), default=math.inf)
        return satterthwaite(parts)


def satterthwaite(parts: Sequence[tuple[float, float]]) -> float:
    """Return Satterthwaite's degrees of freedom of a sum of variances; `parts` are variances with degrees."""
    total = sum(variance for variance, _ in parts)
    denominator = sum(variance**2 / degrees for variance, degrees in parts)
    if denominator <= 0:
        return math.inf
    return total**2 / denominator
