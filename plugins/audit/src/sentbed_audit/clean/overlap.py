"""`Overlap`: which items of evaluations training texts have."""

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
    """Training texts, each file and source once."""

    files: tuple[Path, ...] = ()
    sources: tuple[DataSource, ...] = ()

    @classmethod
    def of(
        cls, recipes: Iterable[RecipeParts], files: Iterable[Path], stages: bool = False
    ) -> Training:
        """Return files, and the training texts that recipes name in `[clean]`.

        With `stages`, the data of their stages are training texts also where `[clean]` does not say so.
        """
        places = dict.fromkeys(path.resolve() for path in files)
        sources: list[DataSource] = []
        for recipe in recipes:
            table = recipe.table(Clean) or Clean(stages=False)
            places |= dict.fromkeys(locate(path).resolve() for path in table.training)
            of_recipe = list(table.data)
            if stages or table.stages:
                of_recipe += [stage.data for stage in recipe.stage]
            # Components are not hashed, since their fields may be lists.
            sources += [source for source in of_recipe if source not in sources]
        return cls(tuple(places), tuple(sources))

    def __iter__(self) -> Iterator[str]:
        for path in self.files:
            yield from texts_of_file(path)
        for source in self.sources:
            yield from texts_of_source(source)


@attrs.frozen(eq=False)
class SeenItems:
    """Which items of a task training texts have; each array is `(items,)`."""

    exactly: Flags
    """Whether a text of the item is seen exactly."""
    seen: Flags
    """Whether a text of the item is seen, exactly or nearly; the item is not clean then."""
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
    """Numbers of the texts of each item."""

    def fits(self, score: Score) -> bool:
        """Whether a score is on these items, as far as its items tell."""
        items = score.items
        return items is not None and len(items.x) == len(self.texts)


class Overlap:
    """Items of the evaluations of some recipes, and which of them training texts have."""

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
        """Yield evaluator, task and which of its items are seen, of each task."""
        for (evaluator, key), tasks in self._tasks.items():
            for task in tasks:
                yield evaluator, key, self._seen(task)

    def of(self, score: Score) -> SeenItems | None:
        """Return which items of a score are seen; None where it is not known which texts they have."""
        for key in (f"{score.task}/{score.metric}", score.task):
            tasks = self._tasks.get((score.evaluator, key), ())
            fitting = [task for task in tasks if task.fits(score)]
            if score.items is not None and score.items.clusters is not None:
                clusters = score.items.clusters
                same = [task for task in fitting if (task.identities == clusters).all()]
                # Clusters may be of another kind, such as passages.
                fitting = same or fitting
            # Of several evaluations by one name it is not known whose score it is.
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
        if not any(
            type(evaluator) is type(other) and evaluator == other for other in distinct
        ):
            distinct.append(evaluator)
    return distinct


def _numbered(
    items: Sequence[tuple[str, ...]], numbers: dict[str, int]
) -> list[tuple[int, ...]]:
    """Return the number of each text of each item; texts without a number get the next one."""
    numbered = []
    for texts in items:
        numbered.append(tuple(numbers.setdefault(text, len(numbers)) for text in texts))
    return numbered
