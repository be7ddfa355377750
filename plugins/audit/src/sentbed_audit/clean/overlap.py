"""Which items of evaluations occur in training texts (`Overlap`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed import locate
from sentbed.helpers import identities
from sentbed.protocols import DataSource, Evaluator, Prepared, Recipe, Score

from sentbed_audit.clean.clean_config import Clean
from sentbed_audit.clean.seen_texts import NEAR, SeenTexts
from sentbed_audit.clean.training_texts import texts_of_file, texts_of_source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]


@attrs.frozen
class Training:
    """The files and data sources that have the training texts. Iteration yields all texts, source by source."""

    files: tuple[Path, ...] = ()
    sources: tuple[DataSource, ...] = ()

    @classmethod
    def of(
        cls,
        recipes: Iterable[Recipe],
        files: Iterable[Path],
        stages: bool = False,
    ) -> Training:
        """Return the training texts of `files`, and those that `[clean]` names in the recipes.

        With `stages`, the data of the recipes' stages is added, even where `[clean]` has `stages = false`.
        """
        paths = [path.resolve() for path in files]
        sources: list[DataSource] = []
        for recipe in recipes:
            table = recipe.table(Clean) or Clean(stages=False)
            paths += [locate(path).resolve() for path in table.training]
            of_recipe = list(table.data)
            if stages or table.stages:
                of_recipe += [stage.data for stage in recipe.stage]
            # `sources` is no set, since components with lists cannot be hashed.
            sources += [source for source in of_recipe if source not in sources]
        return cls(tuple(dict.fromkeys(paths)), tuple(sources))

    def __iter__(self) -> Iterator[str]:
        for path in self.files:
            yield from texts_of_file(path)
        for source in self.sources:
            yield from texts_of_source(source)


@attrs.frozen(eq=False)
class SeenItems:
    """Which items of a task occur in training texts; each array is `(items,)`."""

    exactly: Flags
    """Whether one of the item's texts is seen exactly."""
    seen: Flags
    """Whether one of the item's texts is seen, exactly or nearly."""
    wholly: Flags
    """Whether all of the item's texts are seen, exactly or nearly."""

    @property
    def clean(self) -> Flags:
        """Whether none of the item's texts is seen."""
        return ~self.seen


@attrs.frozen(eq=False)
class _Task:
    """The items of one task of one evaluator."""

    identities: NDArray[np.int64]
    """`(items,)`: a number per item, which is equal for items with equal texts. Many evaluators have the same
    numbers in `Items.clusters`."""
    texts: Sequence[tuple[int, ...]]
    """For each item, the indices of its texts in the list of distinct texts of all tasks."""


class Overlap:
    """The items of evaluations, and which of them occur in training texts."""

    def __init__(
        self,
        evaluators: Iterable[Evaluator],
        training: Training,
        near: float = NEAR,
    ) -> None:
        import numpy as np

        self.training = training
        self._tasks: dict[tuple[str, str], list[_Task]] = {}
        numbers: dict[str, int] = {}
        for evaluator in _distinct(evaluators):
            prepared = evaluator.prepare()
            if not isinstance(prepared, Prepared):
                continue
            for key, items in prepared.item_texts().items():
                task = _Task(identities(items), _numbered(items, numbers))
                self._tasks.setdefault((evaluator.name, key), []).append(task)

        texts = SeenTexts(list(numbers))
        texts.look_in(training)
        self.read = texts.read
        """Number of training texts that were read."""
        self.short = np.count_nonzero(texts.is_short)
        """Number of distinct texts of items that are too short to be seen nearly."""
        self.texts = len(numbers)
        """Number of distinct texts of items."""
        self._exactly, self._nearly = texts.exactly, texts.nearly(near)

    def tasks(self) -> Iterator[tuple[str, str, SeenItems]]:
        """Yield the evaluator, the name and the seen items of each task."""
        for (evaluator, key), tasks in self._tasks.items():
            for task in tasks:
                yield evaluator, key, self._seen(task)

    def of(self, score: Score) -> SeenItems | None:
        """Return which items of a score are seen; None if it is unknown which texts its items have."""
        items = score.items
        if items is None:
            return None
        for key in (f"{score.task}/{score.metric}", score.task):
            tasks = self._tasks.get((score.evaluator, key), ())
            fitting = [task for task in tasks if len(task.texts) == len(items.x)]
            if items.clusters is not None:
                clusters = items.clusters
                same = [task for task in fitting if (task.identities == clusters).all()]
                # Clusters need not be the identities of items; they may also denote passages, for example.
                fitting = same or fitting
            # If several evaluations fit, it is unknown to which of them the score belongs.
            if len(fitting) == 1:
                return self._seen(fitting[0])
        return None

    def _seen(self, task: _Task) -> SeenItems:
        """Return which items of a task are seen."""
        import numpy as np

        exactly = np.zeros(len(task.texts), bool)
        seen = np.zeros_like(exactly)
        wholly = np.zeros_like(exactly)
        for number, texts in enumerate(task.texts):
            places = list(texts)
            exactly[number] = self._exactly[places].any()
            seen[number] = self._nearly[places].any()
            wholly[number] = self._nearly[places].all()
        return SeenItems(exactly, seen, wholly)


def _distinct(evaluators: Iterable[Evaluator]) -> list[Evaluator]:
    """Return the evaluators without repetitions."""
    distinct: list[Evaluator] = []
    for evaluator in evaluators:
        same_type = [other for other in distinct if type(other) is type(evaluator)]
        if evaluator not in same_type:
            distinct.append(evaluator)
    return distinct


def _numbered(
    items: Sequence[tuple[str, ...]], numbers: dict[str, int]
) -> list[tuple[int, ...]]:
    """Return, for each item, the numbers of its texts in `numbers`; a new text gets the next number there."""
    numbered = []
    for texts in items:
        numbered.append(tuple(numbers.setdefault(text, len(numbers)) for text in texts))
    return numbered
