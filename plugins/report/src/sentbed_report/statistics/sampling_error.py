"""Contributions of the items of a test set to the sampling error of a score, called its components.

Each independent item, or cluster of items, has one component. The sum of their squares is the variance of the
score. (Variance components, which sum to a variance, are something else.)
Scores on the same items have their components in the same order. So the components of a difference of two scores
are the differences of the components, and likewise for a mean. If an item occurs in several tasks, the
components that it has in the mean over tasks are added before they are squared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentbed.protocols import Items, Score
    from sentbed_common.item_statistics import Floats


@attrs.frozen
class Block:
    """The components of one task, within those of several tasks."""

    size: int
    """Number of components."""
    degrees: float
    """Degrees of freedom of the sum of their squares."""


@attrs.frozen(eq=False)
class ItemComponents:
    """The components of one score, or of a mean of scores of one run."""

    values: Floats
    """`(components,)`, in the unit of the score; the components of one task follow those of another."""
    blocks: tuple[Block, ...]
    """The block of each task, in the order of `values`."""
    names: NDArray[np.int64] | None
    """`(components,)`: identities of the items or clusters of a single task.

    None if the items have no identities, or there are several tasks.
    """
    shared: NDArray[np.int64] | None = None
    """`(components,)`: index of the item of each component. An item has the same index in all its tasks.

    None if no item is in several tasks.
    """

    def variance(self, values: Floats) -> float:
        """Return the variance of another score on the same items, whose components are `values`."""
        import numpy as np

        if self.shared is not None:
            values = np.bincount(self.shared, values).astype(float)
        return float(values @ values)

    def degrees(self, values: Floats) -> float:
        """Return the degrees of freedom of `variance(values)`; infinite if the variance is 0.

        They are Satterthwaite's if no item is in several tasks. Otherwise, they are the smallest of any task,
        which is a lower bound.
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
        return _satterthwaite(parts)


def components_of(items: Items) -> ItemComponents | None:
    """Return the components of the score of items; None if every group has one independent item."""
    import numpy as np
    from sentbed_common import item_groups, item_influences

    total = 0.0
    biased = 0.0
    parts = []
    for group in item_groups(items):
        size = len(group.members)
        if items.clusters is not None:
            size = len(np.unique(items.clusters[group.members]))
        if size < 2:
            continue
        # Variance of the group's part of the score, up to a constant, if all items have the same variance.
        variance = float(size) if items.weighted else 1 / size
        total += variance
        # The squares of n influence values give (n - 1) / n of the variance.
        biased += variance * (size - 1) / size
        parts.append((variance, size - 1.0))
    if not parts:
        return None

    values = item_influences(items)
    clusters = items.clusters
    if clusters is not None:
        clusters, cluster_of_item = np.unique(clusters, return_inverse=True)
        values = np.bincount(cluster_of_item, values).astype(float)
    values = values * math.sqrt(total / biased)
    return ItemComponents(
        values, (Block(len(values), _satterthwaite(parts)),), clusters
    )


def components_of_mean(scores: Sequence[Score]) -> ItemComponents | None:
    """Return the components of the mean over the tasks of a run; None if any score has none.

    Items with the same name in several tasks are one item. An item without a name belongs to one task only.
    """
    import numpy as np

    parts = []
    for score in scores:
        part = None
        if score.items is not None:
            part = components_of(score.items)
        if part is None:
            return None
        parts.append(part)
    if len(parts) == 1:
        return parts[0]

    values = np.concatenate([part.values for part in parts]) / len(parts)
    blocks = tuple(part.blocks[0] for part in parts)
    names = []
    is_named = []
    for part in parts:
        is_named.append(np.full(len(part.values), part.names is not None))
        if part.names is not None:
            names.append(part.names)
    if not names:
        return ItemComponents(values, blocks, None)

    distinct, numbers = np.unique(np.concatenate(names), return_inverse=True)
    if len(distinct) == len(numbers):
        return ItemComponents(values, blocks, None)

    # An item without a name gets a number that no other item has.
    numbers_of_items = len(distinct) + np.arange(len(values))
    numbers_of_items[np.concatenate(is_named)] = numbers
    return ItemComponents(values, blocks, None, numbers_of_items)


def _satterthwaite(parts: Sequence[tuple[float, float]]) -> float:
    """Return Satterthwaite's degrees of freedom of a sum of variances.

    `parts` has each variance and its degrees of freedom.
    """
    total = sum(variance for variance, _ in parts)
    denominator = sum(variance**2 / degrees for variance, degrees in parts)
    if denominator <= 0:
        return math.inf
    return total**2 / denominator
