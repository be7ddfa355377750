"""Attention over short texts on a processor, by batched matrix products."""

from __future__ import annotations

import torch
from sentbed_common import processor_capabilities
from torch import Tensor
from torch.nn import functional

LONGEST = {torch.bfloat16: 128, torch.float32: 32}
"""Largest number of tokens for which `short_attention` is faster than PyTorch's attention, by type."""

LEAST_SUM = 1e-30
"""Lower limit for sums of exponentials, far above the smallest positive number of fp32 and bf16."""

LARGEST_SUM = 1e30
"""Upper limit for sums of exponentials, far below the largest number of fp32 and bf16."""


def has_amx() -> bool:
    """Whether the processor has a matrix unit for bf16."""
    return bool(processor_capabilities().get("amx_bf16"))


def suits(
    dtype: torch.dtype,
    device: torch.device,
    length: int,
) -> bool:
    """Whether `short_attention` is the fastest attention over texts of `length` tokens.

    For bf16 on a processor with AMX, attention of several texts in one product is faster.
    """
    if device.type != "cpu" or length > LONGEST.get(dtype, 0):
        return False

    return dtype != torch.bfloat16 or not has_amx()


def short_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Return softmax(scale * query key' + mask) value; the scale is 1 / sqrt(width) by default.

    `query`, `key` and `value` are `(batch, heads, length, width)`. The mask has four dimensions. It is added to
    the scores `(batch, heads, length, length of keys)`, and must broadcast to their shape. Where a key is
    hidden, the mask is -inf or close to it.

    The exponentials are computed of the scores themselves, in one pass, without subtracting the largest score
    of each row first. If a sum of exponentials of a text is not between `LEAST_SUM` and `LARGEST_SUM`, PyTorch
    computes the attention of that text instead.
    """
    heads = query.shape[1]
    left = query.flatten(0, 1)
    right = key.flatten(0, 1).transpose(1, 2)
    factor = scale
    if factor is None:
        factor = query.shape[-1] ** -0.5

    scores = torch.baddbmm(left.new_empty(()), left, right, beta=0, alpha=factor)
    if attn_mask is not None:
        scores.unflatten(0, (-1, heads)).add_(attn_mask)

    weights = scores.exp_()
    sums = weights.sum(-1, keepdim=True)
    products = torch.bmm(weights, value.flatten(0, 1)).div_(sums)
    context: Tensor = products.unflatten(0, (-1, heads))

    least, largest = sums.aminmax()
    if least > LEAST_SUM and largest < LARGEST_SUM:
        return context

    # Only the texts with other sums are computed again: a vector must not depend on the other texts of its
    # batch.
    is_in_range = (sums > LEAST_SUM) & (sums < LARGEST_SUM)
    rows = ~is_in_range.view(len(query), -1).all(1)
    if attn_mask is not None and len(attn_mask) > 1:
        attn_mask = attn_mask[rows]

    context[rows] = functional.scaled_dot_product_attention(
        query[rows], key[rows], value[rows], attn_mask=attn_mask, scale=scale
    )
    return context
