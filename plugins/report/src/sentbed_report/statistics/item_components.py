"""Scores of a table, and the components of each over its items (`sentbed.statistics.ItemComponents`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Score
from sentbed.statistics import ItemComponents

from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.statistics.same_items import require_same

if TYPE_CHECKING:
    from sentbed.statistics.named_statistics import Floats


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
        return None if items is None else items.components(self._resamples)


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
