"""Faster dropout and attention for training on CPUs.

PyTorch calls a slow random generator once per element of a dropout mask. It computes attention with dropout
in fp32 whatever the precision, and in bf16 the backward pass of its attention kernel takes several times as
long as the matrix products in it. In bf16, these are 10 to 40 % of a training step of a BERT.
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
"""Number of values of the random 16-bit integer per element; a dropout rate is rounded to 1 / STEPS."""

BLOCK = 2**18
"""Elements of a mask per stream of random numbers, so that masks do not depend on the number of threads."""


class CpuDropoutAndAttention(TorchFunctionMode):
    """While active, replaces `torch.nn.functional.dropout` and `scaled_dot_product_attention` on CPUs.

    Calls that have no faster form here go to PyTorch. The first mask draws a seed from PyTorch's generator:
    if that is restored, as for the second pass of gradient caching or from a training state, all masks are
    the same again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seeds: np.random.SeedSequence | None = None
        self._last_mask: Tensor | None = None
        """Attention mask of the last call; all layers of a model get the same one."""
        self._last_bias: Tensor | None = None
        """`_bias` of that mask."""
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
        """Call one function of PyTorch, or compute its result here."""
        keywords = kwargs or {}
        computed = None
        if func is functional.dropout:
            computed = self._dropout(*args, **keywords)
        elif func is functional.scaled_dot_product_attention:
            computed = self._attention(*args, **keywords)

        if computed is None:
            return func(*args, **keywords)

        return computed

    def dropout_mask(
        self, shape: Sequence[int], rate: float, dtype: torch.dtype
    ) -> Tensor:
        """Return a mask of this shape: 0 with probability `rate`, else 1 / (1 - rate), in `dtype`."""
        drawn = self._drawn(math.prod(shape))
        dropped = round(rate * STEPS)
        # The integers from -STEPS / 2 to `last` are the `dropped` smallest ones: they become 0, all others 1.
        # This arithmetic is several times faster than a comparison and a cast.
        last = dropped - STEPS // 2 - 1
        kept = drawn.clamp_(last, last + 1).sub_(last)

        scale = torch.tensor(STEPS / (STEPS - dropped), dtype=dtype)
        if dtype.itemsize != kept.itemsize:
            return kept.to(dtype).mul_(scale).view(shape)

        # 0 or 1 times the bits of `scale` are the bits of 0 or of `scale`.
        return kept.mul_(scale.view(torch.int16)).view(dtype).view(shape)

    def _drawn(self, count: int) -> Tensor:
        """Return random 16-bit integers, from one stream per block."""
        if self._seeds is None:
            self._seeds = np.random.SeedSequence(int(torch.randint(2**63 - 1, ())))

        drawn = torch.empty(count, dtype=torch.int16)
        blocks = [block.numpy() for block in torch.split(drawn, BLOCK)]
        streams = self._seeds.spawn(len(blocks))
        threads = torch.get_num_threads()
        if threads == 1:
            for block, stream in zip(blocks, streams, strict=True):
                _fill(block, stream)
            return drawn

        if self._pool is None:
            self._pool = ThreadPoolExecutor(threads, "dropout")
        list(self._pool.map(_fill, blocks, streams))
        return drawn

    def _dropout(
        self,
        input: Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> Tensor | None:
        """Compute dropout; None if PyTorch is to compute it."""
        if not training or inplace or not input.is_cpu or not _can_be_drawn(p):
            return None

        return input * self.dropout_mask(input.shape, p, input.dtype)

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
        """Compute attention; None if PyTorch is to compute it."""
        dtype = query.dtype
        if torch.is_autocast_enabled("cpu"):
            dtype = torch.get_autocast_dtype("cpu")

        drops = _can_be_drawn(dropout_p)
        if dropout_p != 0 and not drops:
            return None
        # In fp32, PyTorch's attention without dropout is the faster one.
        if not drops and dtype != torch.bfloat16:
            return None
        if enable_gqa or not _is_by_head_on_cpu(query, key):
            return None
        if attn_mask is not None and not _is_fixed_mask(attn_mask, is_causal):
            return None

        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        shape = (*query.shape[:3], key.shape[2])
        if is_causal:
            attn_mask = torch.ones(shape[2:], dtype=torch.bool).tril()[None, None]
        if attn_mask is not self._last_mask:
            self._last_mask = attn_mask
            self._last_bias = _bias(attn_mask, dtype)

        dropout_mask = None
        if drops:
            dropout_mask = self.dropout_mask(shape, dropout_p, dtype).flatten(0, 1)
        if scale is None:
            scale = query.shape[-1] ** -0.5
        with torch.autocast("cpu", enabled=False):
            attended: Tensor = Attention.apply(  # type: ignore[no-untyped-call]
                query, key, value, self._last_bias, dropout_mask, scale
            )

        return attended


def _is_by_head_on_cpu(query: Tensor, key: Tensor) -> bool:
    """Whether these are queries and keys on the CPU, with equal batch sizes and numbers of heads."""
    if not query.is_cpu or query.ndim != 4 or key.ndim != 4:
        return False

    return query.shape[:2] == key.shape[:2]


def _is_fixed_mask(mask: Tensor, is_causal: bool) -> bool:
    """Whether a mask needs no gradient, has four axes and is not combined with a causal one."""
    return mask.ndim == 4 and not mask.requires_grad and not is_causal


class Attention(torch.autograd.Function):
    """`softmax(scale Q K' + bias) V`, in the precision of its inputs, with a dropout mask on the softmax.

    Queries, keys and values are `(batch, heads, length, width)`, the bias can be broadcast to
    `(batch, heads, length, length)`, the dropout mask is `(batch x heads, length, length)`.
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
        """Return the weighted means of the values, in the shape of the queries."""
        heads = query.shape[:2]
        query, key, value = query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1)
        weights = _weights(query, key, bias, heads, scale)
        attended = torch.bmm(_dropped(weights, mask), value)
        saved = None
        if mask is not None:
            saved = weights
        # Without dropout, no matrix of `(length, length)` is saved, as in PyTorch's own kernel.
        ctx.save_for_backward(query, key, value, bias, mask, saved)
        ctx.heads = heads
        ctx.scale = scale
        return attended.view(*heads, *attended.shape[1:])

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
        for gradient in (of_query, of_key, of_value):
            gradients.append(gradient.view(*ctx.heads, *gradient.shape[1:]))

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
    """Return the attention weights, `(batch x heads, length, length)`, without dropout."""
    ignored = query.new_empty(()).expand(len(query), query.shape[1], key.shape[1])
    scores = torch.baddbmm(ignored, query, key.transpose(1, 2), beta=0, alpha=scale)
    if bias is not None:
        scores.view(*heads, *scores.shape[1:]).add_(bias)

    return torch.softmax(scores, -1)


def _bias(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return the bias on the scores for an attention mask.

    Masked positions get the lowest finite number: with -inf, the softmax of a fully masked row is NaN.
    """
    if mask is None:
        return None

    least = torch.finfo(dtype).min
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, least)

    return mask.clamp(min=least).to(dtype)


def _can_be_drawn(rate: float) -> bool:
    """Whether a dropout rate, as rounded, drops some elements and keeps others."""
    return 0 < round(rate * STEPS) < STEPS


def _fill(part: np.ndarray[Any, Any], stream: np.random.SeedSequence) -> None:
    """Fill an array of 16-bit integers with random ones."""
    generator = np.random.Generator(np.random.SFC64(stream))
    count = math.ceil(len(part) / 4)
    words = generator.integers(0, 2**64 - 1, count, np.uint64, endpoint=True)
    part[:] = words.view(np.int16)[: len(part)]
