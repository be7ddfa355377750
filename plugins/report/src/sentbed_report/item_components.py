"""The part of a score that is due to the choice of its items, as a vector: `ItemComponents`.

Each independent item, or cluster of items, has a component, and the sum of their squares is the variance of
the score over items. Scores on the same items have components in the same order, so that the components of a
difference or a mean of such scores are the difference or the mean of theirs. In the mean of several tasks an
item that several of them have is one item: its components are added before they are squared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Items, Score

from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.influence_values import has_influences, influences, summed
from sentbed_report.resampling import require_same, require_usable, resample
from sentbed_report.weighted_statistics import members_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed_report.weighted_statistics import Floats


@attrs.frozen
class MeanScore:
    """Mean of scores of one run, one a task."""

    scores: tuple[Score, ...]

    @property
    def value(self) -> float:
        """The mean, in the unit of the scores."""
        return sum(score.value for score in self.scores) / len(self.scores)


AnyScore: TypeAlias = Score | MeanScore
"""A score of a task, or the mean over tasks."""


def parts_of(score: AnyScore) -> tuple[Score, ...]:
    """Return the scores that a mean is over; a score of a task is itself."""
    return score.scores if isinstance(score, MeanScore) else (score,)


def is_degenerate(score: AnyScore) -> bool:
    """Whether a score, or one that a mean is over, says nothing about its encoder."""
    return any(degenerate_of(part) for part in parts_of(score))


def require_same_items(one: AnyScore, other: AnyScore) -> None:
    """Raise `RunError` if two scores, all of which have items, cannot be paired item by item."""
    first, second = parts_of(one), parts_of(other)
    if len(first) != len(second):
        raise RunError("the two scores cannot be paired: one is a mean over other tasks than the other")
    for own, others in zip(first, second, strict=True):
        if own.items is not None and others.items is not None:
            require_same(own.items, others.items)


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
            parts.append((float(part @ part), block.degrees))
            start += block.size
        if self.shared is not None:
            return min((degrees for variance, degrees in parts if variance > 0), default=math.inf)
        return satterthwaite(parts)


def satterthwaite(parts: Sequence[tuple[float, float]]) -> float:
    """Return Satterthwaite's degrees of freedom of a sum of variances, each with its own degrees."""
    total = sum(variance for variance, _ in parts)
    below = sum(variance**2 / degrees for variance, degrees in parts if variance > 0)
    return total**2 / below if below > 0 else math.inf


class ComponentStore:
    """Components of the scores of a table, each computed once.

    The statistic of a plugin is resampled `resamples` times; others have influence values.
    """

    def __init__(self, resamples: int) -> None:
        self._resamples = resamples
        self._components: dict[tuple[int, ...], tuple[AnyScore, ItemComponents | None]] = {}

    def of(self, score: AnyScore) -> ItemComponents | None:
        """Return the components of a score; None if it, or a part of it, has no items to generalise from.

        Raises:
            RunError: if its items cannot be used.
        """
        key = tuple(map(id, parts_of(score)))
        if key not in self._components:
            parts = [self._of_part(part) for part in parts_of(score)]
            known = [part for part in parts if part is not None]
            components = None
            if len(known) == len(parts):
                components = known[0] if len(known) == 1 else _mean(known)
            # Keep a reference to the score, so that its id is not reused.
            self._components[key] = score, components
        return self._components[key][1]

    def _of_part(self, score: Score) -> ItemComponents | None:
        key = (id(score),)
        if key not in self._components:
            components = None if score.items is None else components_of(score.items, self._resamples)
            self._components[key] = score, components
        return self._components[key][1]


def components_of(items: Items, resamples: int) -> ItemComponents | None:
    """Return the components of a score; None if every group has one item.

    Raises:
        RunError: if the items cannot be used.
    """
    import numpy as np

    require_usable(items)
    known = item_degrees(items)
    if known is None:
        return None
    degrees, missing = known
    names = items.clusters
    if not has_influences(items):
        draws = resample(items, resamples).draws
        values = (draws - draws.mean()) / math.sqrt(len(draws) - 1)
        names = None
    else:
        values = influences(items)
        if names is not None:
            values, names = summed(values, names)
    values = np.asarray(values * math.sqrt(missing))
    return ItemComponents(values, (Block(len(values), degrees),), names)


def item_degrees(items: Items) -> tuple[float, float] | None:
    """Return the degrees of freedom of a variance over items, and what to multiply it by.

    The squares of n influence values, and resamples of n items, give (n - 1) / n of the variance. Clusters
    count as items. None if every group has one item.
    """
    sizes = [group_size(items, members) for members in members_of(items)]
    # The variance of each group's part, if those of single items are alike; of one item it is not known.
    parts = [((size if items.weighted else 1 / size), size - 1) for size in sizes if size > 1]
    if not parts:
        return None
    missing = sum(part for part, _ in parts) / sum(part * most / (most + 1) for part, most in parts)
    return satterthwaite(parts), missing


def group_size(items: Items, members: NDArray[np.int64]) -> int:
    """Return the number of independent items of a group: its clusters, or its items."""
    import numpy as np

    if items.clusters is None:
        return len(members)
    return len(np.unique(items.clusters[members]))


def _mean(parts: Sequence[ItemComponents]) -> ItemComponents:
    """Return the components of the mean of several tasks' scores."""
    import numpy as np

    values = np.concatenate([part.values for part in parts]) / len(parts)
    blocks = tuple(part.blocks[0] for part in parts)
    named = [part.names for part in parts if part.names is not None]
    if not named:
        return ItemComponents(values, blocks, None)
    every = np.concatenate(named)
    distinct, numbers = np.unique(every, return_inverse=True)
    if len(distinct) == len(every):
        return ItemComponents(values, blocks, None)
    shared = np.empty(len(values), np.int64)
    start = used = 0
    unnamed = len(distinct)
    for part in parts:
        size = len(part.values)
        if part.names is None:
            shared[start : start + size] = np.arange(unnamed, unnamed + size)
            unnamed += size
        else:
            shared[start : start + size] = numbers[used : used + size]
            used += size
        start += size
    return ItemComponents(values, blocks, None, shared)
