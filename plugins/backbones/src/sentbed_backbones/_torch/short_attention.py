"""Attention over short texts on a processor, by plain products."""

from __future__ import annotations

import torch
from torch.nn import functional

LONGEST = {torch.bfloat16: 128, torch.float32: 32}
"""The longest texts for which it is faster than PyTorch's own, by type."""

LEAST_SUM, LARGEST_SUM = 1e-30, 1e30
"""Between these, sums of exponentials are far from the limits of fp32 and bf16."""


def has_amx() -> bool:
    """Whether the processor has a matrix unit for bf16."""
    return bool(torch.cpu.get_capabilities().get("amx_bf16"))


def suits(dtype: torch.dtype, device: torch.device, length: int) -> bool:
    """Whether attention over texts of `length` tokens is faster by `short_attention`.

    With AMX, bf16 has a faster form: several texts in one product.
    """
    short = device.type == "cpu" and length <= LONGEST.get(dtype, 0)
    return short and not (dtype == torch.bfloat16 and has_amx())


def short_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """Return softmax(scale * query key' + mask) value; the scale is 1 / sqrt(width) by default.

    The others are `(batch, heads, length, width)`, the mask anything that is added to
    `(batch, heads, length, length of keys)`, -inf or nearly where nothing is to be seen.

    The exponentials are taken of the scores as they are, in one pass over all of them, and not row by row of
    what is left after the largest of a row is subtracted; if one is too large for that, or all of a row are
    too small, PyTorch's own attention takes over.
    """
    heads = query.shape[1]
    left, right = query.flatten(0, 1), key.flatten(0, 1).transpose(1, 2)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.baddbmm(left.new_empty(()), left, right, beta=0, alpha=factor)
    if attn_mask is not None:
        scores.unflatten(0, (-1, heads)).add_(attn_mask)
    weights = scores.exp_()
    sums = weights.sum(-1, keepdim=True)
    least, largest = sums.aminmax()
    if not (least > LEAST_SUM and largest < LARGEST_SUM):
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, scale=scale)
    context: torch.Tensor = torch.bmm(weights, value.flatten(0, 1)).div_(sums).unflatten(0, (-1, heads))
    return context
