"""The part of a score that is due to the choice of its items, as a vector: `ItemComponents`.

Each independent item, or cluster of items, has a component, and the sum of their squares is the variance of
the score over items. Scores on the same items have components in the same order, so that the components of a
difference or a mean of such scores are the difference or the mean of theirs. In the mean of several tasks an
item that several of them have is one item: its components are added before they are squared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Items, Score

from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.statistics.influence_values import influences
from sentbed_report.statistics.resampling import require_same, require_usable, resample
from sentbed_report.statistics.weighted_statistics import members_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed_report.statistics.weighted_statistics import Floats


@attrs.frozen
class MeanScore:
    """Mean of scores of one run, one a task."""

    scores: tuple[Score, ...]

    @property
    def value(self) -> float:
        """The mean, in the unit of the scores."""
        return sum(score.value for score in self.scores) / len(self.scores)


@attrs.frozen
class PromptScores:
    """Scores of the runs of one seed, one a prompt. As one score it is their mean."""

    of_prompts: Mapping[str, Score | MeanScore]
    """Label of the prompt -> score, on the same items under all prompts; at least one."""
    are_sample: bool = True
    """Whether the prompts are a sample of those that might be used, and not all that are of interest."""

    @property
    def value(self) -> float:
        """The mean over the prompts, in the unit of the scores."""
        return sum(score.value for score in self.of_prompts.values()) / len(
            self.of_prompts
        )


AnyScore: TypeAlias = Score | MeanScore | PromptScores
"""A score of a task, the mean over tasks, or either under several prompts."""


def parts_of(score: AnyScore) -> tuple[Score, ...]:
    """Return the scores that a mean is over; a score of a task is itself."""
    if isinstance(score, PromptScores):
        return tuple(chain.from_iterable(map(parts_of, score.of_prompts.values())))
    return score.scores if isinstance(score, MeanScore) else (score,)


def is_degenerate(score: AnyScore) -> bool:
    """Whether a score, or one that a mean is over, says nothing about its encoder."""
    return any(degenerate_of(part) for part in parts_of(score))


def degenerate_reason(score: Score | MeanScore) -> str:
    """Return why a score, or one that a mean is over, says nothing about its encoder; empty if all do."""
    degenerate = {
        part.task: degenerate_of(part)
        for part in parts_of(score)
        if degenerate_of(part)
    }
    if degenerate and isinstance(score, MeanScore):
        return f"it includes {', '.join(degenerate)}, where the score is degenerate"
    return "".join(degenerate.values())


def require_same_items(scores: Sequence[AnyScore]) -> None:
    """Raise `RunError` if scores cannot be paired item by item; those without items are not looked at."""
    for score in scores[1:]:
        parts, others = parts_of(scores[0]), parts_of(score)
        if len(parts) != len(others):
            raise RunError(
                "the two scores cannot be paired: one is a mean over other tasks than the other"
            )
        for part, other in zip(parts, others, strict=True):
            if part.items is not None and other.items is not None:
                require_same(part.items, other.items)


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


class ComponentStore:
    """Components of the scores of a table, each computed once.

    The statistic of a plugin is resampled `resamples` times; others have influence values.
    """

    def __init__(self, resamples: int) -> None:
        self._resamples = resamples
        # With the scores, so that their ids are not reused.
        self._components: dict[
            tuple[type, tuple[int, ...]],
            tuple[tuple[Score, ...], ItemComponents | None],
        ] = {}

    def of(self, score: AnyScore) -> ItemComponents | None:
        """Return the components of a score; None if it, or a part of it, has no items to generalise from.

        Raises:
            RunError: if its items cannot be used.
        """
        parts = parts_of(score)
        key = type(score), tuple(map(id, parts))
        if key not in self._components:
            self._components[key] = parts, self._computed(score)
        return self._components[key][1]

    def of_all(self, scores: Sequence[AnyScore]) -> list[ItemComponents]:
        """Return the components of scores on the same items; empty if any score has none.

        Raises:
            RunError: if the scores are not on the same items, or these cannot be used.
        """
        components = [self.of(score) for score in scores]
        require_same_items(scores)
        present = [each for each in components if each is not None]
        return present if len(present) == len(scores) else []

    def _computed(self, score: AnyScore) -> ItemComponents | None:
        if not isinstance(score, PromptScores):
            return self._of_parts(parts_of(score))
        import numpy as np

        components = self.of_all([*score.of_prompts.values()])
        if not components:
            return None
        mean: Floats = np.mean([each.values for each in components], axis=0)
        return attrs.evolve(components[0], values=mean)

    def _of_parts(self, parts: Sequence[Score]) -> ItemComponents | None:
        if len(parts) > 1:
            components = [self.of(part) for part in parts]
            present = [each for each in components if each is not None]
            return _mean(present) if len(present) == len(parts) else None
        items = parts[0].items
        return None if items is None else components_of(items, self._resamples)


def components_of(items: Items, resamples: int) -> ItemComponents | None:
    """Return the components of a score; None if every group has one item.

    Raises:
        RunError: if the items cannot be used.
    """
    import numpy as np

    require_usable(items)
    sizes = [_independent(items, members) for members in members_of(items)]
    repeated = [size for size in sizes if size > 1]
    if not repeated:
        return None
    names = items.clusters
    if callable(items.statistic):
        draws = resample(items, resamples)
        values = (draws - draws.mean()) / math.sqrt(len(draws) - 1)
        names = None
    else:
        values = influences(items)
        if names is not None:
            names, cluster_of_item = np.unique(names, return_inverse=True)
            values = np.bincount(cluster_of_item, values)
    # The variance of each group's part, if those of single items are alike; of one item it is not known.
    variances = [1 / size for size in repeated]
    if items.weighted:
        variances = [*repeated]
    degrees = satterthwaite(
        [(part, size - 1) for part, size in zip(variances, repeated, strict=True)]
    )
    # The squares of n influence values, and resamples of n items, give (n - 1) / n of the variance.
    seen = sum(
        part * (size - 1) / size for part, size in zip(variances, repeated, strict=True)
    )
    values = values * math.sqrt(sum(variances) / seen)
    return ItemComponents(values, (Block(len(values), degrees),), names)


def _independent(items: Items, members: NDArray[np.int64]) -> int:
    """Return the number of independent items of a group: its clusters, or its items."""
    import numpy as np

    return (
        len(members)
        if items.clusters is None
        else len(np.unique(items.clusters[members]))
    )


def _mean(parts: Sequence[ItemComponents]) -> ItemComponents:
    """Return the components of the mean of several tasks' scores."""
    import numpy as np

    values = np.concatenate([part.values for part in parts]) / len(parts)
    blocks = tuple(part.blocks[0] for part in parts)
    names = [part.names for part in parts if part.names is not None]
    if not names:
        return ItemComponents(values, blocks, None)
    distinct, numbers = np.unique(np.concatenate(names), return_inverse=True)
    if len(distinct) == len(numbers):
        return ItemComponents(values, blocks, None)
    # An item without a name is no item of another task.
    is_named = np.concatenate(
        [np.full(len(part.values), part.names is not None) for part in parts]
    )
    shared = len(distinct) + np.arange(len(values))
    shared[is_named] = numbers
    return ItemComponents(values, blocks, None, shared)
