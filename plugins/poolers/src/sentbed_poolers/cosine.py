"""The similarity `cosine`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Tensor

from sentbed_poolers.dot import Dot


@attrs.frozen
class Cosine(Dot):
    """The cosine of the angle between two vectors.

    It lies between -1 and 1. The cosine with a vector of zeros is 0. This is the default similarity of encoders.
    """

    name = "cosine"
    compares = frozenset({"vector", "sparse"})
    formula = "cosine"

    def normalize(self, vectors: Tensor) -> Tensor:
        """Return the vectors `(n, width)`, each divided by its length."""
        from torch.nn import functional

        return functional.normalize(vectors, dim=-1)
