"""The similarity `manhattan`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Similarity, Tensor


@attrs.frozen
class Manhattan(Similarity):
    """Minus the sum of the absolute differences of two vectors."""

    name = "manhattan"
    compares = frozenset({"vector", "sparse"})

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the distances, times -1, of each vector of `first` from each of `second`, `(n, m)`."""
        import torch

        return -torch.cdist(first, second, p=1.0)

    def pairwise(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the distance, times -1, of the two vectors in each row, `(n,)`."""
        return -(first - second).abs().sum(dim=-1)
