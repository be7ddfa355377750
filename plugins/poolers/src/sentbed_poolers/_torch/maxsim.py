"""The functions of the similarity `maxsim`."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenVectors
from torch import Tensor

EMPTY = -1e9
"""Similarity with a text without tokens. It is below all others, and finite, so that a softmax is not NaN."""


def maxsim(
    first: TokenVectors,
    second: TokenVectors,
    mean: bool,
) -> Tensor:
    """Return the similarity of each text of `first` with each of `second`, `(n, m)`; see `MaxSim` for `mean`."""
    products = torch.einsum("ash,bth->abst", first.vectors, second.vectors)
    best = _best(products, second.mask[None, :, None, :])
    return _total(best, first.mask[:, None, :], second.mask.any(dim=-1), mean)


def pairwise_maxsim(
    first: TokenVectors,
    second: TokenVectors,
    mean: bool,
) -> Tensor:
    """Return the similarity of the two texts in each row, `(n,)`; see `MaxSim` for `mean`."""
    products = first.vectors @ second.vectors.transpose(1, 2)
    best = _best(products, second.mask[:, None, :])
    return _total(best, first.mask, second.mask.any(dim=-1), mean)


def _best(products: Tensor, mask: Tensor) -> Tensor:
    """Return the largest product of each token of the first texts with a token of the second text in `mask`."""
    lowest = torch.finfo(products.dtype).min
    return products.masked_fill(~mask, lowest).max(dim=-1).values


def _total(
    best: Tensor,
    mask: Tensor,
    has_tokens: Tensor,
    mean: bool,
) -> Tensor:
    """Return the sum or the mean of the best products over the tokens in the mask.

    `has_tokens` is false for second texts without tokens, which get `EMPTY`.
    """
    total = best.masked_fill(~mask, 0.0).sum(dim=-1)
    if mean:
        total = total / mask.sum(dim=-1).clamp(min=1)

    return total.masked_fill(~has_tokens, EMPTY)
