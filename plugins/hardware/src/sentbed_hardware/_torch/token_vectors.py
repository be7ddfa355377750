"""The token vectors of a batch, detached from the passes that computed them."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from sentbed.protocols import TokenVectors
from torch import Tensor

from sentbed_hardware._torch.tower import BatchVectors, Chunk, Texts
from sentbed_hardware.engine_parts.component_output_checks import tensor_of


class BatchTokenVectors(BatchVectors):
    """The vectors of the tokens that count, `vectors` `(total, width)`, text by text, in one process."""

    @cached_property
    def counts(self) -> Chunk:
        """Vectors of each text, which the passes fill in."""
        return np.zeros(len(self.tokens), np.int64)

    def forward(self, rows: Chunk) -> Tensor:
        """Return the vectors of these texts from one pass."""
        output: TokenVectors = self.tower.forward(self.tokens, rows)
        self.counts[rows] = output.mask.sum(dim=1).cpu().numpy()
        return tensor_of(output)

    def positions(self, rows: Chunk) -> Chunk:
        """Return which of all vectors are those of these texts, in the order of `forward`."""
        ends = np.cumsum(self.counts)
        places = []
        for row in rows:
            places.append(np.arange(ends[row] - self.counts[row], ends[row]))

        return np.concatenate(places)

    def texts_of(self, vectors: Chunk) -> Chunk:
        """Return the texts that these vectors are of."""
        texts = np.arange(len(self.counts))
        of_each: Chunk = np.repeat(texts, self.counts)
        return of_each[vectors]

    def by_column(self, columns: Texts) -> dict[str, TokenVectors]:
        """Return the vectors of each column, padded, given the columns whose texts these are."""
        starts = np.cumsum(self.counts) - self.counts
        put = self.tower.placement.put
        result = {}
        first = 0
        for name, tokens in columns.items():
            last = first + len(tokens)
            counts = self.counts[first:last, None]
            width = max(1, int(counts.max()))
            places = starts[first:last, None] + np.arange(width)
            mask = np.arange(width) < counts
            # What stands in the place of padding does not count.
            vectors = self.vectors[put(np.where(mask, places, 0))]
            result[name] = TokenVectors(vectors, put(mask))
            first = last

        return result
