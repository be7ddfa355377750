"""The token vectors of a batch in training, packed without padding."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from sentbed.protocols import TokenVectors
from torch import Tensor

from sentbed_hardware._torch.tower import BatchVectors, Chunk, Texts
from sentbed_hardware.engine_parts.component_output_checks import tensor_of


class BatchTokenVectors(BatchVectors):
    """The vectors of all tokens that the pooler does not mask, text after text.

    `vectors` has the shape `(tokens, width)`. This works in a single process only.
    """

    @cached_property
    def counts(self) -> Chunk:
        """The number of vectors of each text. `forward` sets it."""
        return np.zeros(len(self.tokens), np.int64)

    def forward(self, rows: Chunk) -> Tensor:
        """Compute the texts `rows` in one pass, and return the vectors of their tokens."""
        output: TokenVectors = self.tower.forward(self.tokens, rows)
        self.counts[rows] = output.mask.sum(dim=1).cpu().numpy()
        return tensor_of(output)

    def positions(self, rows: Chunk) -> Chunk:
        """See `BatchVectors.positions`."""
        ends = np.cumsum(self.counts)
        positions = []
        for row in rows:
            positions.append(np.arange(ends[row] - self.counts[row], ends[row]))

        return np.concatenate(positions)

    def texts_of(self, positions: Chunk) -> Chunk:
        """See `BatchVectors.texts_of`."""
        texts = np.arange(len(self.counts))
        text_of_vector: Chunk = np.repeat(texts, self.counts)
        return text_of_vector[positions]

    def by_column(self, columns: Texts) -> dict[str, TokenVectors]:
        """Return the token vectors of each column, with padding.

        The texts of this batch are those of `columns`, one column after another.
        """
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
            # The first vector stands for padding; the mask hides it.
            indices = np.where(mask, starts[texts, None] + positions, 0)
            by_column[name] = TokenVectors(self.vectors[put(indices)], put(mask))

        return by_column
