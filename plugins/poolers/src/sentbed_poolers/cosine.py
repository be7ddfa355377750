"""The similarity `cosine`."""

from __future__ import annotations

import attrs
from sentbed.protocols import SimilarityTraits, Tensor

from sentbed_poolers.dot import Dot


@attrs.frozen
class Cosine(Dot):
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
