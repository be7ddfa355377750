"""Cosines and dot products of vectors in fp32, and metrics that follow from them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


class Products:
    """Dot products or cosines of vectors, for encoders whose recipe names no similarity.

    It has the methods of `sentbed.protocols.Similarity` that losses call.
    """

    def __init__(self, cosine: bool) -> None:
        self.cosine = cosine

    def normalize(self, vectors: Tensor) -> Tensor:
        """Return the vectors in fp32, normalised to length 1 if their products are to be cosines."""
        return scaled(vectors, self.cosine)

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the products of all pairs of rows, `(n, m)`."""
        return first @ second.T


def unit(vectors: Tensor) -> Tensor:
    """Return the vectors in fp32, normalised to length 1."""
    return functional.normalize(vectors.to(torch.float32), dim=-1)


def scaled(vectors: Tensor, cosine: bool) -> Tensor:
    """Return the vectors in fp32, normalised to length 1 if `cosine` is true."""
    if cosine:
        return unit(vectors)

    return vectors.to(torch.float32)


def contrast_metrics(
    similarity: Tensor,
    temperature: Tensor | float,
    counts_negatives: bool,
) -> dict[str, Tensor]:
    """Return the metrics of a contrastive loss.

    `similarity`, `(n, candidates)`, has the similarity of each anchor with its own positive on the diagonal, and
    -inf for candidates that are left out. The metric `accuracy` is always returned, `temperature` only if it is a
    tensor: it is then learned. With `counts_negatives`, `negatives` is the mean number of negatives in a
    denominator.
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
    """Return Pearson's correlation of two vectors `(rows,)`; 0 if one of them is constant."""
    x, y = x - x.mean(), y - y.mean()

    squares = x.square().sum() * y.square().sum()
    # The first `where` is needed for the gradient. The gradient of the square root is infinite at 0, and the
    # second `where` would multiply it by 0, which gives NaN.
    varies = squares > 0
    norm = torch.where(varies, squares, 1.0).sqrt()
    return torch.where(varies, (x * y).sum() / norm, 0.0)


def lengths(vectors: Tensor) -> Tensor:
    """Return the L2 norm of each row, `(rows,)`. The gradient of a row of zeros is 0."""
    squares = vectors.square().sum(dim=-1)
    # As in `correlation`, so that the gradient of a row of zeros is not NaN, which that of
    # `torch.linalg.vector_norm` is on JAX.
    is_zero = squares == 0
    norms = torch.where(is_zero, 1.0, squares).sqrt()
    return torch.where(is_zero, 0.0, norms)
