"""The token vectors of a batch, detached from the passes that computed them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from sentbed.protocols import TokenIds, TokenVectors
from torch import Tensor

from sentbed_hardware._torch.tower import BatchVectors, Chunk
from sentbed_hardware.engine_parts.component_output_checks import tensor_of


class BatchTokenVectors(BatchVectors):
    """The vectors of the tokens that count, `vectors` `(total, width)`, text by text, in one process."""

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Vectors of each text, which the passes fill in."""
        return np.zeros(len(self.tokens), np.int64)

    def forward(self, rows: Chunk) -> Tensor:
        """Return the vectors of these texts from one pass."""
        output: TokenVectors = self.tower.forward(self.tokens, rows)
        self.counts[rows] = output.mask.sum(dim=1).cpu().numpy()
        return tensor_of(output)

    def positions(self, rows: Chunk) -> NDArray[np.int64]:
        """Return which of all vectors are those of these texts, in the order of `forward`."""
        ends = np.cumsum(self.counts)
        places = [np.arange(ends[row] - self.counts[row], ends[row]) for row in rows]
        return np.concatenate(places)

    def texts_of(self, vectors: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the texts that these vectors are of."""
        texts: NDArray[np.int64] = np.repeat(np.arange(len(self.counts)), self.counts)
        return texts[vectors]

    def by_column(self, columns: Mapping[str, TokenIds]) -> dict[str, TokenVectors]:
        """Return the vectors of each column, padded, given the columns whose texts these are."""
        starts = np.cumsum(self.counts) - self.counts
        put = self.tower.placement.put
        result = {}
        first = 0
        for name, tokens in columns.items():
            texts = slice(first, first + len(tokens))
            counts = self.counts[texts, None]
            columns_of_text = np.arange(max(1, int(counts.max())))
            mask = columns_of_text < counts
            places = np.where(mask, starts[texts, None] + columns_of_text, 0)
            vectors = self.vectors[put(places)]
            result[name] = TokenVectors(vectors, put(mask))
            first += len(tokens)

        return result
