"""Scores of a table's cells, and their components per item (`ItemComponents`).

The components of a score have one entry per item or cluster of items. They are what the variance of the score
over the items is computed from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Score

from sentbed_report.statistics.same_items import require_same
from sentbed_report.statistics.sampling_error import ItemComponents, components_of

if TYPE_CHECKING:
    from sentbed_common.item_statistics import Floats


@attrs.frozen
class MeanScore:
    """Mean over the tasks of a run, as if it were a score."""

    scores: tuple[Score, ...]
    """One score per task."""

    @property
    def value(self) -> float:
        """The mean, in the unit of the scores."""
        return _mean_value(self.scores)


@attrs.frozen
class PromptScores:
    """Scores of one seed under several prompts, one run per prompt; `value` is their mean."""

    of_prompts: Mapping[str, Score | MeanScore]
    """Label of a prompt -> score under this prompt; at least one prompt. All scores are on the same items."""
    are_sample: bool = True
    """Whether the prompts are a sample of those that might be used; False if they are all prompts of interest."""

    @property
    def value(self) -> float:
        """The mean over the prompts, in the unit of the scores."""
        return _mean_value(self.of_prompts.values())


def _mean_value(scores: Collection[Score | MeanScore]) -> float:
    return sum(score.value for score in scores) / len(scores)


AnyScore: TypeAlias = Score | MeanScore | PromptScores
"""Score of a task, mean over tasks, or scores of either kind under several prompts."""


def parts_of(score: AnyScore) -> tuple[Score, ...]:
    """Return the scores over which a mean is taken; a single score is returned alone."""
    if isinstance(score, PromptScores):
        return tuple(chain.from_iterable(map(parts_of, score.of_prompts.values())))
    if isinstance(score, MeanScore):
        return score.scores
    return (score,)


def require_same_items(scores: Sequence[AnyScore]) -> None:
    """Raise `RunError` if scores cannot be paired item by item. Scores without items are not checked."""
    for score in scores[1:]:
        parts = parts_of(scores[0])
        others = parts_of(score)
        if len(parts) != len(others):
            raise RunError(
                "the two scores cannot be paired: one is a mean over other tasks than the other"
            )
        for part, other in zip(parts, others, strict=True):
            if part.items is not None and other.items is not None:
                require_same(part.items, other.items)


class ComponentStore:
    """Cache of the item components of a table's scores."""

    def __init__(self) -> None:
        # The keys are ids, so the scores are kept as well: the id of a deleted score could be reused.
        self._components: dict[
            tuple[type, tuple[int, ...]],
            tuple[tuple[Score, ...], ItemComponents | None],
        ] = {}

    def of(self, score: AnyScore) -> ItemComponents | None:
        """Return the item components of a score; None if the score, or any part of it, has no items.

        Raises:
            RunError: if the scores under its prompts are not on the same items.
        """
        parts = parts_of(score)
        key = type(score), tuple(map(id, parts))
        if key not in self._components:
            self._components[key] = parts, self._computed(score)
        return self._components[key][1]

    def of_all(self, scores: Sequence[AnyScore]) -> list[ItemComponents]:
        """Return the item components of scores on the same items; empty if any score has no items.

        Raises:
            RunError: if the scores are not on the same items.
        """
        components = self._of_each(scores)
        require_same_items(scores)
        return components

    def _of_each(self, scores: Sequence[AnyScore]) -> list[ItemComponents]:
        """Return the item components of scores on any items, equal or not; empty if any score has no items."""
        components = []
        for score in scores:
            of_score = self.of(score)
            if of_score is None:
                return []
            components.append(of_score)
        return components

    def _computed(self, score: AnyScore) -> ItemComponents | None:
        if not isinstance(score, PromptScores):
            return self._of_parts(parts_of(score))
        import numpy as np

        components = self.of_all([*score.of_prompts.values()])
        if not components:
            return None
        values = [of_prompt.values for of_prompt in components]
        mean: Floats = np.mean(values, axis=0)
        return attrs.evolve(components[0], values=mean)

    def _of_parts(self, parts: Sequence[Score]) -> ItemComponents | None:
        if len(parts) > 1:
            components = self._of_each(parts)
            return _mean(components) if components else None

        items = parts[0].items
        if items is None:
            return None
        return components_of(items)


def _mean(parts: Sequence[ItemComponents]) -> ItemComponents:
    """Return the item components of the mean over tasks from those of the tasks.

    Items with the same name in several tasks are one item. An item without a name belongs to one task only.
    """
    import numpy as np

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
