"""Attention over short texts on a processor, by plain products."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

LONGEST = {torch.bfloat16: 128, torch.float32: 32}
"""The longest texts for which it is faster than PyTorch's own, by type."""

LEAST_SUM = 1e-30
"""Above it, a sum of exponentials is far from the least number of fp32 and bf16."""

LARGEST_SUM = 1e30
"""Below it, a sum of exponentials is far from the largest number of fp32 and bf16."""


def has_amx() -> bool:
    """Whether the processor has a matrix unit for bf16."""
    return bool(torch.cpu.get_capabilities().get("amx_bf16"))


def suits(dtype: torch.dtype, device: torch.device, length: int) -> bool:
    """Whether attention over texts of `length` tokens is faster by `short_attention`.

    With AMX, bf16 has a faster form: several texts in one product.
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

    The others are `(batch, heads, length, width)`, the mask, of four dimensions, is added to
    `(batch, heads, length, length of keys)`, -inf or nearly where nothing is to be seen.

    The exponentials are taken of the scores as they are, in one pass over all of them, and not row by row of
    what is left after the largest of a row is subtracted; of texts in which one is too large for that, or all
    of a row are too small, PyTorch's own attention takes care.
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

    # Only those texts: a vector must not depend on the texts beside it.
    fine = (sums > LEAST_SUM) & (sums < LARGEST_SUM)
    rows = ~fine.view(len(query), -1).all(1)
    if attn_mask is not None and len(attn_mask) > 1:
        attn_mask = attn_mask[rows]

    context[rows] = functional.scaled_dot_product_attention(
        query[rows], key[rows], value[rows], attn_mask=attn_mask, scale=scale
    )
    return context
