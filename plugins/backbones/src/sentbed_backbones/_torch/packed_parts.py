"""Parts that the packed forms of several architectures share: norms, projections of attention, whole groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from sentbed_backbones._torch.prepacked_cpu_linear import Linear, Products

Norm: TypeAlias = Callable[[Tensor], Tensor]
Cast: TypeAlias = Callable[[Tensor], Tensor]


def layer_norm(norm: Any, cast: Cast) -> Norm:
    """Return a `LayerNorm` with copies of its weights."""
    weight, bias = norm.weight, norm.bias
    if weight is not None:
        weight = cast(weight)
    if bias is not None:
        bias = cast(bias)

    eps = norm.eps
    return lambda x: functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def rms_norm(norm: Any, cast: Cast) -> Norm:
    """Return LLaMA's norm with a copy of its weights."""
    weight = cast(norm.weight)
    eps = norm.variance_epsilon

    def normalize(x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return functional.rms_norm(x, x.shape[-1:], weight, eps)

        # Three times as fast in bf16 as `rms_norm`, which makes fp32 copies: batch normalisation with each
        # token as a channel divides in one pass, in fp32.
        length = torch.linalg.vector_norm(x, dim=-1, dtype=torch.float32)
        square = length.square() / x.shape[-1]
        mean = torch.zeros_like(square)
        return functional.batch_norm(x[None], mean, square, eps=eps)[0].mul_(weight)

    return normalize


def projections(products: Products, *layers: Any) -> Linear:
    """Return several `nn.Linear` of one input as one product, such as queries, keys and values."""
    weight = torch.cat([layer.weight for layer in layers])
    bias = None
    if layers[0].bias is not None:
        bias = torch.cat([layer.bias for layer in layers])
    return products.linear(weight, bias)


def in_whole_groups(input_ids: Tensor, group: int) -> Tensor:
    """Return the rows with the last one repeated until their number is a multiple of `group`."""
    missing = -len(input_ids) % group
    if not missing:
        return input_ids
    return torch.cat([input_ids, input_ids[-1:].expand(missing, -1)])
