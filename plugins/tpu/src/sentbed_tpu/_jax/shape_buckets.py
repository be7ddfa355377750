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

    def rows(self, texts: int) -> int:
        """Return the number of rows to which `texts` texts are padded."""
        doublings = math.ceil(math.log2(max(1, texts / self.smallest)))
        return self.smallest << doublings

    def rows_in_training(self, texts: int) -> int:
        """Return the number of rows to which the texts of a training batch are padded, a multiple of `smallest`.

        Batches of a stage have one size, except for the last of an epoch.
        """
        return self.smallest * math.ceil(texts / self.smallest)

    def plan(
        self, lengths: NDArray[np.int64], longest: int
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the indices of the texts of each batch; `lengths` are their lengths in tokens.

        Batches go from the longest texts to the shortest. If a batch has free rows, the next shorter texts fill
        them.
        """
        order = np.argsort(-lengths, kind="stable")
        padded = [self.length(int(length), longest) for length in lengths[order]]
        done = 0
        while done < len(order):
            same_length = padded[done:].count(padded[done])
            rows = min(self.rows(same_length), self.largest(padded[done]))
            yield order[done : done + rows]
            done += rows
