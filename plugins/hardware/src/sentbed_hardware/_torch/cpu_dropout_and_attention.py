"""Dropout and attention for training on a processor, in the place of PyTorch's own.

PyTorch draws a dropout mask by one call of a slow generator an element, computes attention with dropout in
fp32 whatever the precision, and attention in bf16 by a kernel whose gradient takes several times as long as
its products. In bf16 these are 10 to 40 % of a training step of a BERT.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode

STEPS = 2**16
"""A dropout rate is rounded to a multiple of 1 / STEPS: each element of a mask takes two random bytes."""

BLOCK = 2**18
"""Elements of a mask from one stream of random numbers: masks do not depend on the number of threads."""


class CpuDropoutAndAttention(TorchFunctionMode):
    """While it is active, dropout and attention on a processor are those of this module.

    Applies to `torch.nn.functional.dropout` and `scaled_dot_product_attention` of any model; calls that have
    no faster form go to PyTorch. The first mask draws a seed from PyTorch's generator: where that is
    restored, as for the second pass of gradient caching or from a training state, the masks are the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seeds: np.random.SeedSequence | None = None
        self._masked: tuple[Tensor | None, Tensor | None] = None, None
        """The mask of the last call, and what it adds to scores: all layers get the same one."""
        self._pool: ThreadPoolExecutor | None = None

    def __exit__(self, *raised: Any) -> None:
        """Stop the threads that draw masks."""
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Compute one function of PyTorch."""
        keywords = kwargs or {}
        computed = None
        if func is functional.dropout:
            computed = self._dropout(*args, **keywords)
        elif func is functional.scaled_dot_product_attention:
            computed = self._attention(*args, **keywords)

        if computed is None:
            return func(*args, **keywords)

        return computed

    def mask(self, shape: Sequence[int], rate: float, dtype: torch.dtype) -> Tensor:
        """Return a mask of the shape: 0 with probability `rate`, else 1 / (1 - rate), in `dtype`."""
        if self._seeds is None:
            self._seeds = np.random.SeedSequence(int(torch.randint(2**63 - 1, ())))
        drawn = torch.empty(math.prod(shape), dtype=torch.int16)
        parts = [part.numpy() for part in torch.split(drawn, BLOCK)]
        streams = self._seeds.spawn(len(parts))
        threads = torch.get_num_threads()
        if threads > 1 and self._pool is None:
            self._pool = ThreadPoolExecutor(threads, "dropout")
        if self._pool is None:
            list(map(_fill, parts, streams))
        else:
            list(self._pool.map(_fill, parts, streams))

        dropped = round(rate * STEPS)
        last = dropped - STEPS // 2 - 1
        """The largest number whose element is dropped, of those from -STEPS / 2 on."""
        # Arithmetic on small integers is several times faster than a comparison and a cast.
        drawn.clamp_(last, last + 1).sub_(last)
        scale = torch.tensor(STEPS / (STEPS - dropped), dtype=dtype)
        if dtype.itemsize == drawn.itemsize:
            return drawn.mul_(scale.view(torch.int16)).view(dtype).view(shape)

        return drawn.to(dtype).mul_(scale).view(shape)

    def _dropout(
        self,
        input: Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> Tensor | None:
        """Return what PyTorch's function returns, or None if that is to compute it."""
        if not training or inplace or not input.is_cpu or not _can_be_drawn(p):
            return None

        return input * self.mask(input.shape, p, input.dtype)

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor | None:
        """Return what PyTorch's function returns, or None if that is to compute it."""
        dtype = query.dtype
        if torch.is_autocast_enabled("cpu"):
            dtype = torch.get_autocast_dtype("cpu")
        drops = _can_be_drawn(dropout_p)
        # In fp32, PyTorch's attention without dropout is the faster one.
        if not drops and (dropout_p != 0 or dtype != torch.bfloat16):
            return None
        if not query.is_cpu or not query.ndim == key.ndim == 4 or enable_gqa:
            return None
        if query.shape[:2] != key.shape[:2]:
            return None

        if attn_mask is not None and (
            is_causal or attn_mask.requires_grad or attn_mask.ndim != 4
        ):
            return None

        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        shape = (*query.shape[:3], key.shape[2])
        if is_causal:
            attn_mask = torch.ones(shape[2:], dtype=torch.bool).tril()[None, None]
        if attn_mask is not self._masked[0]:
            self._masked = attn_mask, _bias(attn_mask, dtype)
        mask = None
        if drops:
            mask = self.mask(shape, dropout_p, dtype).flatten(0, 1)
        if scale is None:
            scale = query.shape[-1] ** -0.5
        bias = self._masked[1]
        with torch.autocast("cpu", enabled=False):
            attended: Tensor = Attention.apply(query, key, value, bias, mask, scale)  # type: ignore[no-untyped-call]

        return attended


class Attention(torch.autograd.Function):
    """`softmax(scale Q K' + bias) V`, with the probabilities multiplied by a mask, in the inputs' precision.

    Queries, keys and values are `(batch, heads, length, width)`, the bias is broadcast over
    `(batch, heads, length, length)`, the mask is `(batch x heads, length, length)`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        mask: Tensor | None,
        scale: float,
    ) -> Tensor:
        """Return the averages of values, of the shape of the queries."""
        heads = query.shape[:2]
        query, key, value = (part.flatten(0, 1) for part in (query, key, value))
        weights = _weights(query, key, bias, heads, scale)
        attended = torch.bmm(_dropped(weights, mask), value)
        # Without dropout no matrix of `(length, length)` is kept, as in PyTorch's own kernel.
        kept = None
        if mask is not None:
            kept = weights
        ctx.save_for_backward(query, key, value, bias, mask, kept)
        ctx.heads = heads
        ctx.scale = scale
        return attended.view(*heads, *query.shape[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of queries, keys and values."""
        query, key, value, bias, mask, weights = ctx.saved_tensors
        if weights is None:
            weights = _weights(query, key, bias, ctx.heads, ctx.scale)

        slope = slope.flatten(0, 1)
        of_value = torch.bmm(_dropped(weights, mask).transpose(1, 2), slope)
        of_weights = torch.bmm(slope, value.transpose(1, 2))
        if mask is not None:
            of_weights.mul_(mask)
        of_scores = torch.ops.aten._softmax_backward_data(
            of_weights, weights, -1, weights.dtype
        )
        of_query = torch.bmm(of_scores, key).mul_(ctx.scale)
        of_key = torch.bmm(of_scores.transpose(1, 2), query).mul_(ctx.scale)

        gradients = []
        for part in (of_query, of_key, of_value):
            gradients.append(part.view(*ctx.heads, *part.shape[1:]))

        return (*gradients, None, None, None)


def _dropped(weights: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return weights

    return weights * mask


def _weights(
    query: Tensor,
    key: Tensor,
    bias: Tensor | None,
    heads: Sequence[int],
    scale: float,
) -> Tensor:
    """Return the weights of values, `(batch x heads, length, length)`."""
    ignored = query.new_empty(()).expand(len(query), query.shape[1], key.shape[1])
    scores = torch.baddbmm(ignored, query, key.transpose(1, 2), beta=0, alpha=scale)
    if bias is not None:
        scores.view(*heads, *scores.shape[1:]).add_(bias)
    return torch.softmax(scores, -1)


def _bias(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return what is added to scores: finite, because some rows of padding may see nothing."""
    if mask is None:
        return None

    least = torch.finfo(dtype).min
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, least)

    return mask.clamp(min=least).to(dtype)


def _can_be_drawn(rate: float) -> bool:
    return 0 < round(rate * STEPS) < STEPS


def _fill(part: np.ndarray[Any, Any], stream: np.random.SeedSequence) -> None:
    """Fill an array of int16 with random bytes."""
    generator = np.random.Generator(np.random.SFC64(stream))
    count = math.ceil(len(part) / 4)
    words = generator.integers(0, 2**64 - 1, count, np.uint64, endpoint=True)
    part[:] = words.view(np.int16)[: len(part)]
