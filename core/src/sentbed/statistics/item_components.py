"""The part of a score that is due to the choice of its items, as a vector: `ItemComponents`.

Each independent item, or cluster of items, has a component, and the sum of their squares is the variance of
the score over items. Scores on the same items have components in the same order, so that the components of a
difference or a mean of such scores are the difference or the mean of theirs. In the mean of several tasks an
item that several of them have is one item: its components are added before they are squared.
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
    """One a task, in the order of `values`."""
    names: NDArray[np.int64] | None
    """Identities of items or clusters, of one task; None if they have none, or there are several tasks."""
    shared: NDArray[np.int64] | None = None
    """Number of the item that each component belongs to, where tasks share items."""

    def variance(self, values: Floats) -> float:
        """Return the variance of a score with these components, which are on the same items."""
        import numpy as np

        if self.shared is not None:
            values = np.bincount(self.shared, values).astype(float)
        return float(values @ values)

    def degrees(self, values: Floats) -> float:
        """Return the degrees of freedom of `variance(values)`; infinite if it is 0.

        Of tasks that share no items they are Satterthwaite's; otherwise the least of any task, as one sum
        over all items knows no less than one over those of a task.
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
    """Return Satterthwaite's degrees of freedom of a sum of variances, each with its own degrees."""
    total = sum(variance for variance, _ in parts)
    below = sum(variance**2 / degrees for variance, degrees in parts)
    return total**2 / below if below > 0 else math.inf
