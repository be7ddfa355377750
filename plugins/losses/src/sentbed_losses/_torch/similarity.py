"""Similarities of vectors, in fp32."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


class Products:
    """Dot products of vectors, or their cosines: the similarity of an encoder that names none."""

    def __init__(self, cosine: bool) -> None:
        self.cosine = cosine

    def normalize(self, vectors: Tensor) -> Tensor:
        """Return the vectors as they are, or of length 1."""
        if self.cosine:
            return unit(vectors)

        return vectors

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the products of all pairs of rows, `(n, m)`."""
        return first @ second.T


def unit(vectors: Tensor) -> Tensor:
    """Return the vectors in fp32, of length 1."""
    return functional.normalize(vectors.to(torch.float32), dim=-1)


def scaled(vectors: Tensor, cosine: bool) -> Tensor:
    """Return the vectors in fp32, of length 1 where their products are to be cosines."""
    if cosine:
        return unit(vectors)

    return vectors.to(torch.float32)


def contrast_metrics(
    similarity: Tensor, temperature: Tensor | float, counts_negatives: bool
) -> dict[str, Tensor]:
    """Return the metrics of anchors `(n, candidates)` whose own positives are on the diagonal.

    `accuracy`; the mean number of `negatives` in a denominator, if they are counted, of which those that are
    left out have a similarity of -inf; and the `temperature`, if it is learned.
    """
    place = torch.arange(len(similarity), device=similarity.device)
    is_right = similarity.argmax(dim=1) == place
    metrics = {"accuracy": is_right.to(torch.float32).mean()}
    if isinstance(temperature, Tensor):
        metrics["temperature"] = temperature.detach()
    if counts_negatives:
        is_candidate = similarity > -math.inf
        candidates = is_candidate.to(torch.float32).sum(dim=1)
        metrics["negatives"] = candidates.mean() - 1

    return metrics


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
