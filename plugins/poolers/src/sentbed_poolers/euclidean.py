"""The similarity `euclidean`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Similarity, SimilarityTraits, Tensor


@attrs.frozen
class Euclidean(Similarity):
    """Minus the Euclidean distance of two vectors."""

    name = "euclidean"
    traits = SimilarityTraits(compares=frozenset({"vector", "sparse"}))

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the distances of all pairs of vectors, times -1, `(n, m)`."""
        import torch

        # By products, near vectors would differ by rounding only, and gradients at 0 be NaN.
        distances: Tensor = torch.cdist(
            first, second, compute_mode="donot_use_mm_for_euclid_dist"
        )
        return -distances

    def pairwise(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the distance of each pair of vectors, times -1, `(n,)`."""
        import torch

        distances: Tensor = torch.linalg.vector_norm(first - second, dim=-1)
        return -distances

    def operations(self, width: int, first: float = 1, second: float = 1) -> float:
        """Return those of a difference, a square and a sum for each number."""
        return 3 * width * first * second
