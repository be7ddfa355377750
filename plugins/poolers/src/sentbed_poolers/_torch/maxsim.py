"""MaxSim, the similarity of late interaction."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenVectors
from torch import Tensor

EMPTY = -1e9
"""Similarity to a text without any token: below every other, and finite in a softmax."""


def maxsim(first: TokenVectors, second: TokenVectors, mean: bool) -> Tensor:
    """Return the MaxSim of all pairs of texts, `(n, m)`; with `mean` divided by the first's tokens."""
    products = torch.einsum("ash,bth->abst", first.vectors, second.vectors)
    best = _best(products, second.mask[None, :, None, :])
    return _total(best, first.mask[:, None, :], second.mask.any(dim=-1), mean)


def pairwise_maxsim(first: TokenVectors, second: TokenVectors, mean: bool) -> Tensor:
    """Return the MaxSim of each pair of texts, `(n,)`; with `mean` divided by the first's tokens."""
    products = first.vectors @ second.vectors.transpose(1, 2)
    best = _best(products, second.mask[:, None, :])
    return _total(best, first.mask, second.mask.any(dim=-1), mean)


def _best(products: Tensor, mask: Tensor) -> Tensor:
    """Return the best product of each token of the first texts with one that counts."""
    lowest = torch.finfo(products.dtype).min
    return products.masked_fill(~mask, lowest).max(dim=-1).values


def _total(best: Tensor, mask: Tensor, has_tokens: Tensor, mean: bool) -> Tensor:
    """Return the sum of the best products over the tokens that count, or their mean."""
    total = best.masked_fill(~mask, 0.0).sum(dim=-1)
    if mean:
        total = total / mask.sum(dim=-1).clamp(min=1)

    return total.masked_fill(~has_tokens, EMPTY)
