"""Tasks whose classes a classifier predicts from frozen vectors of sentences or of pairs of sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import attrs
from sentbed import DataError
from sentbed.protocols import Texts, Vectors

from sentbed_evaluators.classifier_dataclasses import Examples, Rows
from sentbed_evaluators.cosine_correlation import nonzero
from sentbed_evaluators.pair_features import PairFeatures, pair_features
from sentbed_evaluators.probe import Classifier, Fold, Outcome, Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK = 4096
"""Number of examples whose features are computed at a time, so that those of MNLI are in memory only once."""


@attrs.frozen(eq=False)
class LabelledTexts:
    """Sentences, or pairs of sentences, with their classes."""

    sides: tuple[tuple[str, ...], ...]
    """All sentences; for pairs, all first and all second sentences."""
    labels: tuple[int, ...]
    """Class number of each sentence or pair."""

    @classmethod
    def of(cls, rows: Iterable[tuple[Sequence[str], int]]) -> LabelledTexts:
        """Return rows of one or two sentences and their class; there must be at least one row."""
        sentences, labels = zip(*rows, strict=True)
        return cls(tuple(zip(*sentences, strict=True)), labels)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def items(self) -> list[tuple[str, ...]]:
        """The one or two sentences of each row."""
        return list(zip(*self.sides, strict=True))

    def take(self, places: Iterable[int]) -> LabelledTexts:
        """Return the rows at these places, in their order."""
        indices = list(places)
        sides = []
        for side in self.sides:
            sides.append(tuple(side[index] for index in indices))
        return LabelledTexts(tuple(sides), tuple(self.labels[i] for i in indices))


@attrs.frozen(eq=False)
class TextVectors:
    """The vectors of distinct texts, each of which is encoded once."""

    row_of_text: Mapping[str, int]
    rows: NDArray[np.float32]
    """`(texts, width)`."""

    @classmethod
    def of(cls, vectors: Vectors, name: str) -> TextVectors:
        """Return the vectors of the list `name`; raises `RunError` if one is zero."""
        texts = vectors.lists[name].first
        row_of_text = {text: row for row, text in enumerate(texts)}
        return cls(row_of_text, nonzero(vectors, name))

    def __getitem__(self, texts: Iterable[str]) -> NDArray[np.float32]:
        return self.rows[[self.row_of_text[text] for text in texts]]


@attrs.frozen(eq=False)
class ProbeTask:
    """A task of labelled texts, on some of which a classifier is trained, and on others scored."""

    name: str
    splits: Mapping[str, LabelledTexts]
    """`all` for a nested cross-validation; otherwise `train`, `test` and, if there is one, the set `dev` that
    chooses the penalty. Without `test`, the classifiers that choose the penalty are scored."""
    classes: int
    data: str
    """Hash of the task's files."""
    features: PairFeatures = "infersent"
    """Features of a pair."""

    @property
    def scored_on(self) -> str:
        """Name of the split whose examples are scored; a cross-validation scores each of them once."""
        for split in ("all", "test", "dev"):
            if split in self.splits:
                return split
        return "train"

    @property
    def item_texts(self) -> list[tuple[str, ...]]:
        """The sentences of each example that is scored."""
        return self.splits[self.scored_on].items

    @property
    def texts(self) -> Texts:
        """The distinct texts to encode."""
        return Texts(distinct_texts(self.splits.values()))

    def rows(self) -> dict[str, Rows]:
        """Return the numbers of each split's examples; the splits follow each other."""
        import numpy as np

        rows = {}
        start = 0
        for name, split in self.splits.items():
            rows[name] = np.arange(start, start + len(split))
            start += len(split)
        return rows

    def folds(self, classifier: Classifier) -> list[Fold]:
        """Return the folds of the task; raises `DataError` if a class has too few examples for them."""
        import numpy as np

        labels = np.concatenate([split.labels for split in self.splits.values()])
        rows = self.rows()
        try:
            if "all" in rows:
                return classifier.nested(labels)
            if "dev" in rows:
                test = rows[self.scored_on]
                return classifier.split(labels, rows["train"], rows["dev"], test)
            return classifier.folded(labels, rows["train"], rows.get("test"))
        except DataError as error:
            raise DataError(f"task `{self.name}`: {error}") from error

    def examples(self, vectors: TextVectors) -> Examples:
        """Return the features and labels of the examples of all splits.

        The features of a sentence are its vector, `(n, width)`.
        """
        import numpy as np

        labels = np.concatenate([split.labels for split in self.splits.values()])
        sides = []
        for side in zip(*(split.sides for split in self.splits.values()), strict=True):
            texts = chain.from_iterable(side)
            sides.append(np.array([vectors.row_of_text[text] for text in texts]))
        if len(sides) == 1:
            return Examples(vectors.rows[sides[0]], labels)

        first, second = sides
        width = pair_features(vectors.rows[:1], vectors.rows[:1], self.features).shape[
            1
        ]
        table = np.empty((len(labels), width), np.float32)
        for start in range(0, len(labels), _BLOCK):
            rows = slice(start, start + _BLOCK)
            table[rows] = pair_features(
                vectors.rows[first[rows]], vectors.rows[second[rows]], self.features
            )
        return Examples(table, labels)

    def probe(
        self,
        vectors: TextVectors,
        classifiers: Sequence[Classifier],
        progress: Progress,
    ) -> list[Outcome]:
        """Train and test each classifier on the vectors of the task's texts."""
        examples = self.examples(vectors)
        outcomes = []
        for classifier in classifiers:
            folds = self.folds(classifier)
            outcome = classifier.probe(examples, self.classes, folds, progress)
            outcomes.append(outcome)
        return outcomes


def distinct_texts(splits: Iterable[LabelledTexts]) -> list[str]:
    """Return every text of the splits once, in the order of its first occurrence."""
    texts: dict[str, None] = {}
    for split in splits:
        for side in split.sides:
            texts |= dict.fromkeys(side)
    return list(texts)
