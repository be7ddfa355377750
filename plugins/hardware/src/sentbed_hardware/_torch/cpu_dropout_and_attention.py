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
        self._bias: tuple[Tensor | None, Tensor | None] = None, None
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
        if func is functional.dropout:
            return self._dropout(*args, **keywords)
        if func is functional.scaled_dot_product_attention:
            return self._attention(*args, **keywords)
        return func(*args, **keywords)

    def mask(self, shape: Sequence[int], rate: float, dtype: torch.dtype) -> Tensor:
        """Return a mask of the shape: 0 with probability `rate`, else 1 / (1 - rate), in `dtype`."""
        if self._seeds is None:
            self._seeds = np.random.SeedSequence(int(torch.randint(2**63 - 1, ())))
        count = math.prod(shape)
        streams = self._seeds.spawn(-(-count // BLOCK))
        sizes = [min(BLOCK, count - BLOCK * number) for number in range(len(streams))]
        drawn = torch.empty(count, dtype=torch.int16)
        parts = [part.numpy() for part in torch.split(drawn, sizes)]
        if (threads := torch.get_num_threads()) > 1 and self._pool is None:
            self._pool = ThreadPoolExecutor(threads, "dropout")
        for _ in (map if self._pool is None else self._pool.map)(_fill, parts, streams):
            pass
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
    ) -> Tensor:
        if not training or inplace or not input.is_cpu or not _can_be_drawn(p):
            return functional.dropout(input, p, training, inplace)
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
    ) -> Tensor:
        dtype = (
            torch.get_autocast_dtype("cpu")
            if torch.is_autocast_enabled("cpu")
            else query.dtype
        )
        drops = _can_be_drawn(dropout_p)
        plain = (
            query.is_cpu
            and query.ndim == key.ndim == 4
            and query.shape[:2] == key.shape[:2]
        )
        unusual_mask = attn_mask is not None and (
            is_causal or attn_mask.requires_grad or attn_mask.ndim != 4
        )
        # In fp32, PyTorch's attention without dropout is the faster one.
        if (
            not plain
            or unusual_mask
            or enable_gqa
            or not (drops or (dropout_p == 0 and dtype == torch.bfloat16))
        ):
            return functional.scaled_dot_product_attention(
                query,
                key,
                value,
                attn_mask,
                dropout_p,
                is_causal,
                scale=scale,
                enable_gqa=enable_gqa,
            )
        query, key, value = (part.to(dtype) for part in (query, key, value))
        shape = (*query.shape[:3], key.shape[2])
        if is_causal:
            attn_mask = torch.ones(shape[2:], dtype=torch.bool).tril()[None, None]
        if attn_mask is not self._bias[0]:
            self._bias = (
                attn_mask,
                None if attn_mask is None else _bias(attn_mask, dtype),
            )
        mask = self.mask(shape, dropout_p, dtype).flatten(0, 1) if drops else None
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        with torch.autocast("cpu", enabled=False):
            attended: Tensor = Attention.apply(
                query, key, value, self._bias[1], mask, scale
            )  # type: ignore[no-untyped-call]
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
        # Without dropout no matrix of `(length, length)` is kept, as in PyTorch's own kernel.
        ctx.save_for_backward(
            query, key, value, bias, mask, None if mask is None else weights
        )
        ctx.heads, ctx.scale = heads, scale
        return torch.bmm(weights if mask is None else weights * mask, value).view(
            *heads, *query.shape[1:]
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of queries, keys and values."""
        query, key, value, bias, mask, weights = ctx.saved_tensors
        if weights is None:
            weights = _weights(query, key, bias, ctx.heads, ctx.scale)
        slope = slope.flatten(0, 1)
        of_value = torch.bmm(
            (weights if mask is None else weights * mask).transpose(1, 2), slope
        )
        of_weights = torch.bmm(slope, value.transpose(1, 2))
        if mask is not None:
            of_weights.mul_(mask)
        of_scores = torch.ops.aten._softmax_backward_data(
            of_weights, weights, -1, weights.dtype
        )
        of_query = torch.bmm(of_scores, key).mul_(ctx.scale)
        of_key = torch.bmm(of_scores.transpose(1, 2), query).mul_(ctx.scale)
        gradients = (
            part.view(*ctx.heads, *part.shape[1:])
            for part in (of_query, of_key, of_value)
        )
        return (*gradients, None, None, None)


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


def _bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores: finite, because some rows of padding may see nothing."""
    least = torch.finfo(dtype).min
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, least)
    return mask.clamp(min=least).to(dtype)


def _can_be_drawn(rate: float) -> bool:
    return 0 < round(rate * STEPS) < STEPS


def _fill(part: np.ndarray[Any, Any], stream: np.random.SeedSequence) -> None:
    """Fill an array of int16 with random bytes."""
    generator = np.random.Generator(np.random.SFC64(stream))
    words = generator.integers(
        0, 2**64 - 1, -(-len(part) // 4), np.uint64, endpoint=True
    )
    part[:] = words.view(np.int16)[: len(part)]
