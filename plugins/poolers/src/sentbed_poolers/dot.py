"""The similarity `dot`."""

from __future__ import annotations

from typing import ClassVar, Literal

import attrs
from sentbed.protocols import Similarity, Tensor


@attrs.frozen
class Dot(Similarity):
    """The dot product of two vectors."""

    name = "dot"
    compares = frozenset({"vector", "sparse"})
    formula: ClassVar[Literal["cosine", "dot"]] = "dot"

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the products of each vector of `first` with each of `second`, `(n, m)`."""
        return first @ second.T

    def pairwise(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the product of the two vectors in each row, `(n,)`."""
        return (first * second).sum(dim=-1)
