"""The vectors of distinct texts, and the examples of a classifier that are made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.protocols import Vectors

from sentbed_evaluators.classifier_dataclasses import Examples, Rows
from sentbed_evaluators.cosine_correlation import nonzero
from sentbed_evaluators.feature_table import feature_table
from sentbed_evaluators.pair_features import PairFeatures

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LabelledTexts: TypeAlias = tuple[Sequence[Sequence[str]], Sequence[int]]
"""The texts of a split and the class of each row. The texts are one list of all sentences; for pairs, they are
a list of all first sentences and a list of all second sentences."""


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

    def __getitem__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.rows[[self.row_of_text[text] for text in texts]]

    def examples(
        self,
        splits: Sequence[LabelledTexts],
        features: PairFeatures = "infersent",
    ) -> tuple[Examples, list[Rows]]:
        """Return the examples (features and labels) of all splits, and which rows are those of each."""
        import numpy as np

        rows_of_sides = []
        for sides in zip(*(texts for texts, _ in splits), strict=True):
            rows = [self.row_of_text[text] for text in chain.from_iterable(sides)]
            rows_of_sides.append(np.array(rows))

        table = feature_table(self.rows, rows_of_sides, features)

        labels: list[int] = []
        for _, of_split in splits:
            labels += of_split

        rows_of_splits = consecutive_rows([len(of_split) for _, of_split in splits])
        return Examples(table, np.array(labels, np.int64)), rows_of_splits


def consecutive_rows(lengths: Sequence[int]) -> list[Rows]:
    """Return the row numbers of parts that follow each other, from their lengths."""
    import numpy as np

    ends = np.cumsum(lengths)
    return np.split(np.arange(ends[-1]), ends[:-1])
