"""Training with token vectors: those of a batch, packed without padding."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from sentbed.protocols import TokenVectors
from torch import Tensor

from sentbed_hardware._torch.tower import BatchVectors, Chunk, Texts
from sentbed_hardware.engine_parts.component_output_checks import tensor_of


class BatchTokenVectors(BatchVectors):
    """The vectors of all tokens that the pooler does not mask, `vectors` `(tokens, width)`, text by text.

    For one process only.
    """

    @cached_property
    def counts(self) -> Chunk:
        """Number of vectors of each text, which the passes fill in."""
        return np.zeros(len(self.tokens), np.int64)

    def forward(self, rows: Chunk) -> Tensor:
        """Return the vectors of these texts from one pass."""
        output: TokenVectors = self.tower.forward(self.tokens, rows)
        self.counts[rows] = output.mask.sum(dim=1).cpu().numpy()
        return tensor_of(output)

    def positions(self, rows: Chunk) -> Chunk:
        """Return the indices of these texts' vectors among all vectors, in the order of `forward`."""
        ends = np.cumsum(self.counts)
        places = []
        for row in rows:
            places.append(np.arange(ends[row] - self.counts[row], ends[row]))

        return np.concatenate(places)

    def texts_of(self, vectors: Chunk) -> Chunk:
        """Return the text of each of these vectors."""
        texts = np.arange(len(self.counts))
        of_each: Chunk = np.repeat(texts, self.counts)
        return of_each[vectors]

    def by_column(self, columns: Texts) -> dict[str, TokenVectors]:
        """Return the vectors of each column, padded; the texts are those of `columns`, joined."""
        starts = np.cumsum(self.counts) - self.counts
        put = self.tower.placement.put
        by_column = {}
        first = 0
        for name, tokens in columns.items():
            texts = slice(first, first + len(tokens))
            first += len(tokens)

            counts = self.counts[texts, None]
            positions = np.arange(max(1, int(counts.max())))
            mask = positions < counts
            # Padding gets any vector, since the mask hides it.
            places = np.where(mask, starts[texts, None] + positions, 0)
            by_column[name] = TokenVectors(self.vectors[put(places)], put(mask))

        return by_column
