"""The vectors of a task's texts, and the features of its pairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import TextEncoder

from sentbed_evaluators.features import PairFeatures, pair_features
from sentbed_evaluators.fits import Examples
from sentbed_evaluators.sentbench_sets.building import SPLITS, Pair
from sentbed_evaluators.sentbench_sets.store import BuiltSets
from sentbed_evaluators.similarity import embed_nonzero

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK = 4096


@attrs.frozen(eq=False)
class TextVectors:
    """The vectors of different texts, each encoded once."""

    places: Mapping[str, int]
    rows: NDArray[np.float32]
    """`(texts, width)`."""

    @classmethod
    def of(cls, encoder: TextEncoder, sets: BuiltSets, paradigms: Collection[str]) -> TextVectors:
        """Encode the texts of a task's sets, as far as the paradigms need them.

        Raises `RunError` where a vector is zero or not finite.
        """
        texts: dict[str, None] = {}
        if "pair" in paradigms:
            texts |= {text: None for split in SPLITS for pair in sets.pairs[split] for text in pair[:2]}
        if "contrast" in paradigms:
            texts |= {text: None for triple in sets.triples for text in triple}
        return cls({text: place for place, text in enumerate(texts)}, embed_nonzero(encoder, list(texts)))

    def __getitem__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.rows[[self.places[text] for text in texts]]

    def examples(self, pairs: Sequence[Pair], features: PairFeatures) -> Examples:
        """Return features and labels of pairs; memory beside them does not grow with their number."""
        import numpy as np

        width = pair_features(self.rows[:1], self.rows[:1], features).shape[1]
        table = np.empty((len(pairs), width), np.float32)
        for start in range(0, len(pairs), _BLOCK):
            block = pairs[start : start + _BLOCK]
            first, second = self[[pair[0] for pair in block]], self[[pair[1] for pair in block]]
            table[start : start + _BLOCK] = pair_features(first, second, features)
        return Examples(table, np.array([label for _, _, label in pairs], np.int64))
