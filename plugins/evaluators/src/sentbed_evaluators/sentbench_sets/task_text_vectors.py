"""Vectors of a task's texts, each encoded once, and the features of its pairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import Vectors

from sentbed_evaluators.classifier_dataclasses import Examples
from sentbed_evaluators.cosine_correlation import nonzero
from sentbed_evaluators.feature_table import feature_table
from sentbed_evaluators.pair_features import PairFeatures
from sentbed_evaluators.sentbench_sets.building import SPLITS, Pair
from sentbed_evaluators.sentbench_sets.built_set_cache import BuiltSets

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def distinct_texts(sets: BuiltSets, paradigms: Collection[str]) -> list[str]:
    """Return the distinct texts of a task's sets that the paradigms need."""
    texts: list[str] = []
    if "pair" in paradigms:
        for first, second, _ in _joined(sets.pairs):
            texts += (first, second)
    if "contrast" in paradigms:
        texts += chain.from_iterable(sets.triples)
    return list(dict.fromkeys(texts))


def _joined(pairs: Mapping[str, Sequence[Pair]]) -> list[Pair]:
    """Return the pairs of all splits, split after split."""
    return list(chain.from_iterable(pairs[split] for split in SPLITS))


@attrs.frozen(eq=False)
class TextVectors:
    """The vectors of distinct texts, each encoded once."""

    places: Mapping[str, int]
    rows: NDArray[np.float32]
    """`(texts, width)`."""

    @classmethod
    def of(cls, vectors: Vectors, name: str) -> TextVectors:
        """Return the vectors of the list `name`; raises `RunError` if one is zero or not finite."""
        texts = vectors.lists[name].first
        return cls(
            {text: place for place, text in enumerate(texts)}, nonzero(vectors, name)
        )

    def __getitem__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.rows[[self.places[text] for text in texts]]

    def examples(
        self,
        pairs: Mapping[str, Sequence[Pair]],
        features: PairFeatures,
        directory: Path,
    ) -> list[Examples]:
        """Return features and labels of each split's pairs.

        Those of all splits are one `feature_table` in `directory`. Raises `RunError` if it has no room.
        """
        import numpy as np

        first, second, labels = zip(*_joined(pairs), strict=True)
        sides = []
        for texts in (first, second):
            sides.append(np.array([self.places[text] for text in texts]))
        table = feature_table(self.rows, sides, directory, features)
        ends = np.cumsum([len(pairs[split]) for split in SPLITS])[:-1]
        parts = np.split(table, ends), np.split(np.array(labels, np.int64), ends)
        return list(map(Examples, *parts))
