"""Vectors of a task's texts, each encoded once, and the features of its pairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    texts: dict[str, None] = {}
    if "pair" in paradigms:
        texts |= {
            text: None
            for split in SPLITS
            for pair in sets.pairs[split]
            for text in pair[:2]
        }
    if "contrast" in paradigms:
        texts |= {text: None for triple in sets.triples for text in triple}
    return list(texts)


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

        together = [pair for split in SPLITS for pair in pairs[split]]
        rows = np.array(
            [(self.places[first], self.places[second]) for first, second, _ in together]
        )
        table = feature_table(self.rows, [rows[:, 0], rows[:, 1]], directory, features)
        labels = np.array([label for _, _, label in together], np.int64)
        ends = np.cumsum([len(pairs[split]) for split in SPLITS])[:-1]
        return [
            Examples(*part)
            for part in zip(np.split(table, ends), np.split(labels, ends), strict=True)
        ]
