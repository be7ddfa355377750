"""`Overlap`: which items of evaluations occur in training texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed import locate
from sentbed.helpers import identities
from sentbed.protocols import DataSource, Evaluator, Prepared, RecipeParts, Score

from sentbed_audit.clean.clean_config import Clean
from sentbed_audit.clean.seen_texts import NEAR, SeenTexts
from sentbed_audit.clean.training_texts import texts_of_file, texts_of_source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]


@attrs.frozen
class Training:
    """Training texts of files and data sources, each of which is read once."""

    files: tuple[Path, ...] = ()
    sources: tuple[DataSource, ...] = ()

    @classmethod
    def of(
        cls, recipes: Iterable[RecipeParts], files: Iterable[Path], stages: bool = False
    ) -> Training:
        """Return the training texts of `files` and of `[clean]` in recipes.

        With `stages`, those of the recipes' stages are added, even if `[clean]` does not ask for it.
        """
        paths = [path.resolve() for path in files]
        sources: list[DataSource] = []
        for recipe in recipes:
            table = recipe.table(Clean) or Clean(stages=False)
            paths += [locate(path).resolve() for path in table.training]
            of_recipe = list(table.data)
            if stages or table.stages:
                of_recipe += [stage.data for stage in recipe.stage]
            # Not a set, as components with lists cannot be hashed.
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
    """Whether a text of the item is seen exactly."""
    seen: Flags
    """Whether a text of the item is seen, exactly or nearly, so that the item is not clean."""
    wholly: Flags
    """Whether each text of the item is seen, exactly or nearly."""

    @property
    def clean(self) -> Flags:
        """Whether no text of the item is seen."""
        return ~self.seen


@attrs.frozen(eq=False)
class _Task:
    """Items of one task of one evaluator."""

    identities: NDArray[np.int64]
    """`(items,)`, as in `Items.clusters`."""
    texts: Sequence[tuple[int, ...]]
    """Indices of the texts of each item in the distinct texts of all items."""

    def fits(self, score: Score) -> bool:
        """Whether a score has the same number of items."""
        items = score.items
        return items is not None and len(items.x) == len(self.texts)


class Overlap:
    """Items of evaluations, and which of them occur in training texts."""

    def __init__(
        self, evaluators: Iterable[Evaluator], training: Training, near: float = NEAR
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
        """Yield evaluator, task and seen items of each task."""
        for (evaluator, key), tasks in self._tasks.items():
            for task in tasks:
                yield evaluator, key, self._seen(task)

    def of(self, score: Score) -> SeenItems | None:
        """Return the seen items of a score; None if the texts of its items are unknown."""
        for key in (f"{score.task}/{score.metric}", score.task):
            tasks = self._tasks.get((score.evaluator, key), ())
            fitting = [task for task in tasks if task.fits(score)]
            if score.items is not None and score.items.clusters is not None:
                clusters = score.items.clusters
                same = [task for task in fitting if (task.identities == clusters).all()]
                # Clusters may also be something else than the identities of items, such as passages.
                fitting = same or fitting
            # With several evaluations of one name, it is unknown to which of them the score belongs.
            if len(fitting) == 1:
                return self._seen(fitting[0])
        return None

    def _seen(self, task: _Task) -> SeenItems:
        import numpy as np

        exactly, seen, wholly = np.zeros((3, len(task.texts)), bool)
        for number, texts in enumerate(task.texts):
            places = list(texts)
            exactly[number] = self._exactly[places].any()
            seen[number] = self._nearly[places].any()
            wholly[number] = self._nearly[places].all()
        return SeenItems(exactly, seen, wholly)


def _distinct(evaluators: Iterable[Evaluator]) -> list[Evaluator]:
    distinct: list[Evaluator] = []
    for evaluator in evaluators:
        same_type = [other for other in distinct if type(other) is type(evaluator)]
        if evaluator not in same_type:
            distinct.append(evaluator)
    return distinct


def _numbered(
    items: Sequence[tuple[str, ...]], numbers: dict[str, int]
) -> list[tuple[int, ...]]:
    """Return the indices of the texts of each item in `numbers`, to which new texts are added."""
    numbered = []
    for texts in items:
        numbered.append(tuple(numbers.setdefault(text, len(numbers)) for text in texts))
    return numbered
