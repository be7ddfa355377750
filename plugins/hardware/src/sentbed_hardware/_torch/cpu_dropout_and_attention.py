"""Faster dropout and attention for training on CPUs.

PyTorch calls a slow random generator once for each element of a dropout mask. It computes attention with dropout
in fp32, also where the precision is bf16. In bf16, the backward pass of its attention kernel takes several times
as long as the matrix products in it. Together, this is 10 to 40 % of a training step of BERT in bf16.
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
"""Number of values of a 16-bit integer. Each element of a mask draws one, so dropout rates are multiples of
1 / STEPS."""

BLOCK = 2**18
"""Number of elements of a mask that are drawn from one random generator. It is fixed, so that masks do not
depend on the number of threads."""


class CpuDropoutAndAttention(TorchFunctionMode):
    """While active, replaces `torch.nn.functional.dropout` and `scaled_dot_product_attention` on CPUs.

    Calls for which this class has no faster form go to PyTorch. The seed of all masks is drawn from PyTorch's
    generator. So masks are the same again if that generator is restored, as for the second pass of gradient
    caching, and when training is resumed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seeds: np.random.SeedSequence | None = None
        self._last_mask: Tensor | None = None
        """Attention mask of the last call. All layers of a model get the same mask."""
        self._last_bias: Tensor | None = None
        """The result of `_bias` for `_last_mask`, so that it is computed once per model."""
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
        """Return the result of a function of PyTorch, computed by this class if it has a faster form."""
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
        self,
        shape: Sequence[int],
        rate: float,
        dtype: torch.dtype,
    ) -> Tensor:
        """Return a dropout mask: each element is 0 with probability `rate`, else 1 / (1 - rate)."""
        integers = self._random_integers(math.prod(shape))
        dropped = round(rate * STEPS)
        # The `dropped` smallest integers, from -STEPS / 2 to `last`, become 0, and all others become 1. Clamping
        # and subtracting is several times faster than a comparison and a cast.
        last = dropped - STEPS // 2 - 1
        kept = integers.clamp_(last, last + 1).sub_(last)

        scale = torch.tensor(STEPS / (STEPS - dropped), dtype=dtype)
        if dtype.itemsize != kept.itemsize:
            return kept.to(dtype).mul_(scale).view(shape)

        # The bits of `scale`, as a 16-bit integer, are multiplied by 0 or 1: this gives the bits of 0 or `scale`.
        return kept.mul_(scale.view(torch.int16)).view(dtype).view(shape)

    def _random_integers(self, count: int) -> Tensor:
        """Return random 16-bit integers. Each block of `BLOCK` integers is drawn with its own seed."""
        if self._seeds is None:
            self._seeds = np.random.SeedSequence(int(torch.randint(2**63 - 1, ())))

        integers = torch.empty(count, dtype=torch.int16)
        blocks = [block.numpy() for block in torch.split(integers, BLOCK)]
        seeds = self._seeds.spawn(len(blocks))
        threads = torch.get_num_threads()
        if threads == 1:
            for block, seed in zip(blocks, seeds, strict=True):
                _fill(block, seed)
            return integers

        if self._pool is None:
            self._pool = ThreadPoolExecutor(threads, "dropout")
        list(self._pool.map(_fill, blocks, seeds))
        return integers

    def _dropout(
        self,
        input: Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> Tensor | None:
        """Return the input after dropout; None if PyTorch has to compute it."""
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
        """Return the result of attention; None if PyTorch has to compute it."""
        dtype = query.dtype
        if torch.is_autocast_enabled("cpu"):
            dtype = torch.get_autocast_dtype("cpu")

        drops = _can_be_drawn(dropout_p)
        if dropout_p != 0 and not drops:
            return None
        # In fp32 and without dropout, PyTorch's attention is faster.
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
    """Return whether queries and keys are on the CPU, with equal batch sizes and numbers of heads."""
    if not query.is_cpu or query.ndim != 4 or key.ndim != 4:
        return False

    return query.shape[:2] == key.shape[:2]


def _is_fixed_mask(mask: Tensor, is_causal: bool) -> bool:
    """Return whether a mask has four axes, needs no gradient, and is not combined with a causal mask."""
    return mask.ndim == 4 and not mask.requires_grad and not is_causal


class Attention(torch.autograd.Function):
    """`softmax(scale Q K' + bias) V` in the precision of its inputs. A dropout mask multiplies the softmax.

    Queries, keys and values have the shape `(batch, heads, length, width)`. The bias can be broadcast to
    `(batch, heads, length, length)`. The dropout mask has the shape `(batch x heads, length, length)`.
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
        # Without dropout, `backward` computes the weights again, to save memory as PyTorch's own kernel does.
        saved = None
        if mask is not None:
            saved = weights
        ctx.save_for_backward(query, key, value, bias, mask, saved)
        ctx.heads = heads
        ctx.scale = scale
        return attended.view(*heads, *attended.shape[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of queries, keys and values; the other arguments have none."""
        query, key, value, bias, mask, weights = ctx.saved_tensors
        if weights is None:
            weights = _weights(query, key, bias, ctx.heads, ctx.scale)

        output_grad = output_grad.flatten(0, 1)
        value_grad = torch.bmm(_dropped(weights, mask).transpose(1, 2), output_grad)
        weights_grad = torch.bmm(output_grad, value.transpose(1, 2))
        if mask is not None:
            weights_grad.mul_(mask)
        scores_grad = torch.ops.aten._softmax_backward_data(
            weights_grad, weights, -1, weights.dtype
        )
        query_grad = torch.bmm(scores_grad, key).mul_(ctx.scale)
        key_grad = torch.bmm(scores_grad.transpose(1, 2), query).mul_(ctx.scale)

        gradients = []
        for gradient in (query_grad, key_grad, value_grad):
            gradients.append(gradient.view(*ctx.heads, *gradient.shape[1:]))

        return (*gradients, None, None, None)


def _dropped(weights: Tensor, mask: Tensor | None) -> Tensor:
    """Return attention weights after dropout."""
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
    """Return the attention weights before dropout, `(batch x heads, length, length)`."""
    # `baddbmm` scales and multiplies in one step. With `beta=0` it ignores the tensor to add.
    ignored = query.new_empty(()).expand(len(query), query.shape[1], key.shape[1])
    scores = torch.baddbmm(ignored, query, key.transpose(1, 2), beta=0, alpha=scale)
    if bias is not None:
        scores.view(*heads, *scores.shape[1:]).add_(bias)

    return torch.softmax(scores, -1)


def _bias(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return the bias that is added to the scores, from an attention mask that is boolean or a bias already.

    Masked positions get the lowest finite number. With -inf, the softmax of a fully masked row would be NaN.
    """
    if mask is None:
        return None

    least = torch.finfo(dtype).min
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, least)

    return mask.clamp(min=least).to(dtype)


def _can_be_drawn(rate: float) -> bool:
    """Return whether a dropout rate, rounded to a multiple of 1 / STEPS, is above 0 and below 1."""
    return 0 < round(rate * STEPS) < STEPS


def _fill(block: np.ndarray[Any, Any], seed: np.random.SeedSequence) -> None:
    """Fill an array with random 16-bit integers."""
    generator = np.random.Generator(np.random.SFC64(seed))
    # A 64-bit word has four of them.
    count = math.ceil(len(block) / 4)
    words = generator.integers(0, 2**64 - 1, count, np.uint64, endpoint=True)
    block[:] = words.view(np.int16)[: len(block)]
