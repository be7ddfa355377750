"""Similarities of vectors, in fp32."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


class Products:
    """Dot products of vectors, or their cosines: the similarity of an encoder that names none."""

    def __init__(self, cosine: bool) -> None:
        self.cosine = cosine

    def normalize(self, vectors: Tensor) -> Tensor:
        """Return the vectors as they are, or of length 1."""
        return unit(vectors) if self.cosine else vectors

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the products of all pairs of rows, `(n, m)`."""
        return first @ second.T


def unit(vectors: Tensor) -> Tensor:
    """Return the vectors in fp32, of length 1."""
    return functional.normalize(vectors.to(torch.float32), dim=-1)


def pairwise_cosine(u: Tensor, v: Tensor) -> Tensor:
    """Return the cosine of each row of `u` and `v`, fp32 `(rows,)`."""
    return (unit(u) * unit(v)).sum(dim=-1)


def correlation(x: Tensor, y: Tensor) -> Tensor:
    """Return Pearson's correlation of two vectors `(rows,)`; 0 where one of them is constant."""
    x, y = x - x.mean(), y - y.mean()
    squares = x.square().sum() * y.square().sum()
    # Two `where`s: the gradient of the branch that is not taken would be NaN, and stay.
    varies = squares > 0
    norm = torch.where(varies, squares, 1.0).sqrt()
    return torch.where(varies, (x * y).sum() / norm, 0.0)
