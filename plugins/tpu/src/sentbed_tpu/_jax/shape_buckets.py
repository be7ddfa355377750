"""The few shapes to which batches are padded, since XLA compiles a program for each shape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

SMALLEST = 8
"""Least number of rows of a batch, which all devices share. A TPU's matrix unit is not faster for fewer rows."""


@attrs.frozen
class Buckets:
    """The shapes of batches: the lengths, and for each length several numbers of rows.

    The numbers of rows are `smallest` times a power of two, within the token budget.
    """

    lengths: Sequence[int]
    """Lengths in tokens, ascending."""
    token_budget: int
    """Number of tokens of the largest batch, which all devices share."""
    devices: int = 1
    """Number of devices. They share the rows of a batch equally."""

    @property
    def smallest(self) -> int:
        """The rows of the smallest batch, of all devices together: `SMALLEST`, rounded up to a multiple of
        `devices`."""
        rows_of_device = math.ceil(SMALLEST / self.devices)
        return self.devices * rows_of_device

    def length(self, tokens: int, longest: int) -> int:
        """Return the length to which a text of `tokens` tokens is padded, at most `longest`."""
        padded = 1 << math.ceil(math.log2(tokens))
        for length in self.lengths:
            if length >= tokens:
                padded = length
                break

        return min(padded, max(longest, tokens))

    def largest(self, length: int) -> int:
        """Return the number of rows of the largest batch of this length."""
        smallest_batches = self.token_budget / (length * self.smallest)
        doublings = int(math.log2(max(1, smallest_batches)))
        return self.smallest << doublings

    def rows(self, texts: int, length: int) -> int:
        """Return the number of rows to which `texts` texts of this length are padded.

        If the texts do not fit into the largest batch, return the number of rows of the largest batch.
        """
        doublings = math.ceil(math.log2(max(1, texts / self.smallest)))
        return min(self.smallest << doublings, self.largest(length))

    def plan(
        self,
        lengths: NDArray[np.int64],
        longest: int,
        texts: int | None = None,
    ) -> Iterator[tuple[NDArray[np.int64], int, int]]:
        """Yield the indices of the texts of each batch, its number of rows, and its length in tokens.

        `lengths` are the lengths of the texts in tokens. Batches go from the longest texts to the shortest. If a
        batch has free rows, the next shorter texts fill them. In training, `texts` limits the number of texts of
        a batch.
        """
        order = np.argsort(-lengths, kind="stable")
        values, place = np.unique(lengths[order], return_inverse=True)
        padded_values = [self.length(value, longest) for value in values.tolist()]
        padded = np.array(padded_values, np.int64)[place]
        done = 0
        while done < len(order):
            length = int(padded[done])
            # `padded` descends, so the texts that are padded to this length end where a shorter one begins.
            end = int(np.searchsorted(-padded, -length, side="right"))
            rows = self.rows(end - done, length)
            if texts is not None:
                rows = min(rows, self.rows(texts, length))
            yield order[done : done + rows], rows, length
            done += rows
