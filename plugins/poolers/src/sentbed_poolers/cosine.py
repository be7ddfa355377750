"""The similarity `cosine`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Similarity, SimilarityTraits, Tensor


@attrs.frozen
class Cosine(Similarity):
    """The cosine of the angle between two vectors.

    It is from -1 to 1, and 0 of a vector of zeros. An encoder has it that names no similarity.
    """

    name = "cosine"
    traits = SimilarityTraits(
        compares=frozenset({"vector", "sparse"}), formula="cosine"
    )

    def normalize(self, vectors: Tensor) -> Tensor:
        """Return the vectors `(n, width)`, each divided by its length."""
        from torch.nn import functional

        return functional.normalize(vectors, dim=-1)

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the products of all pairs of vectors, `(n, m)`."""
        return first @ second.T

    def pairwise(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the product of each pair of vectors, `(n,)`."""
        return (first * second).sum(dim=-1)
