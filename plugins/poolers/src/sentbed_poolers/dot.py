"""The similarity `dot`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Similarity, SimilarityTraits, Tensor


@attrs.frozen
class Dot(Similarity):
    """The dot product of two vectors."""

    name = "dot"
    traits = SimilarityTraits(compares=frozenset({"vector", "sparse"}), formula="dot")

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the products of each vector of `first` with each of `second`, `(n, m)`."""
        return first @ second.T

    def pairwise(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the product of the two vectors in each row, `(n,)`."""
        return (first * second).sum(dim=-1)
