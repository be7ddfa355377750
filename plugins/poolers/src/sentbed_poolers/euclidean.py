"""The similarity `euclidean`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Similarity, Tensor


@attrs.frozen
class Euclidean(Similarity):
    """Minus the Euclidean distance of two vectors."""

    name = "euclidean"
    compares = frozenset({"vector", "sparse"})

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the distances, times -1, of each vector of `first` from each of `second`, `(n, m)`."""
        import torch

        # The faster computation from dot products is inexact for near vectors, and its gradient is NaN at a
        # distance of 0.
        distances: Tensor = torch.cdist(
            first, second, compute_mode="donot_use_mm_for_euclid_dist"
        )
        return -distances

    def pairwise(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the distance, times -1, of the two vectors in each row, `(n,)`."""
        import torch

        distances: Tensor = torch.linalg.vector_norm(first - second, dim=-1)
        return -distances
