"""Buckets of shapes: those that batches are padded to, each of which is compiled once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

SMALLEST = 8
"""Rows of the smallest batch; fewer leave a matrix unit idle all the same."""


@attrs.frozen
class Buckets:
    """Lengths, with the numbers of rows for each: powers of two, within the token budget."""

    lengths: Sequence[int]
    token_budget: int
    """Tokens of the largest batch, over all devices."""
    devices: int = 1
    """Number of devices, which share the rows equally."""

    @property
    def smallest(self) -> int:
        """The rows of the smallest batch, over all devices."""
        return self.devices * -(-SMALLEST // self.devices)

    def length(self, tokens: int, longest: int) -> int:
        """Return the length to which a text of `tokens` tokens is padded; at most `longest`."""
        padded = 1 << math.ceil(math.log2(tokens))
        for length in self.lengths:
            if length >= tokens:
                padded = length
                break

        return min(padded, max(longest, tokens))

    def most(self, length: int) -> int:
        """Return the rows of the largest batch of this length."""
        smallest_batches = self.token_budget / (length * self.smallest)
        return self.smallest << int(math.log2(max(1, smallest_batches)))

    def rows(self, texts: int, length: int) -> int:
        """Return the rows of the smallest batch for `texts` texts, or of the largest one."""
        doublings = math.ceil(math.log2(max(1, texts / self.smallest)))
        return min(self.smallest << doublings, self.most(length))

    def plan(
        self, lengths: NDArray[np.int64], longest: int, texts: int | None = None
    ) -> Iterator[tuple[NDArray[np.int64], int, int]]:
        """Yield the texts of each batch, its rows and its length; longest texts first.

        Free rows of a batch are filled with the longest of the shorter texts. `texts` limits the texts of a
        batch, for the memory of training.
        """
        order = np.argsort(-lengths, kind="stable")
        values, place = np.unique(lengths[order], return_inverse=True)
        padded_values = [self.length(value, longest) for value in values.tolist()]
        padded = np.array(padded_values, np.int64)[place]
        done = 0
        while done < len(order):
            length = int(padded[done])
            # Lengths descend: the texts of this length end where shorter ones begin.
            as_long = int(np.searchsorted(-padded, -length, side="right")) - done
            rows = self.rows(as_long, length)
            if texts is not None:
                rows = min(rows, self.rows(texts, length))
            yield order[done : done + rows], rows, length
            done += rows

    def shapes(self, longest: int) -> int:
        """Return the number of shapes for texts of up to `longest` tokens."""
        padded = {self.length(tokens, longest) for tokens in range(1, longest + 1)}
        shapes = 0
        for length in padded:
            doublings = int(math.log2(self.most(length) // self.smallest))
            shapes += 1 + doublings

        return shapes
