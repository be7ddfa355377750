"""Faster dropout and attention for training on CPUs.

PyTorch calls a slow random generator once for each element of a dropout mask. It computes attention with dropout
in fp32, also where the precision is bf16. In bf16, the backward pass of its attention kernel takes several times
as long as the matrix products in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor
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
        """Return `dropout(softmax(scale Q K' + mask)) V`; None if PyTorch has to compute it."""
        dtype = query.dtype
        if torch.is_autocast_enabled("cpu"):
            dtype = torch.get_autocast_dtype("cpu")

        drops = _can_be_drawn(dropout_p)
        if enable_gqa or not query.is_cpu or (dropout_p != 0 and not drops):
            return None
        # In fp32 and without dropout, PyTorch's attention is faster.
        if not drops and dtype != torch.bfloat16:
            return None
        if attn_mask is not None and (attn_mask.requires_grad or is_causal):
            return None

        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        if is_causal:
            shape = query.shape[-2], key.shape[-2]
            attn_mask = torch.ones(shape, dtype=torch.bool).tril()
        if scale is None:
            scale = query.shape[-1] ** -0.5

        # Autocast would compute the softmax in fp32.
        with torch.autocast("cpu", enabled=False):
            scores = query @ key.transpose(-2, -1) * scale
            if attn_mask is not None:
                scores = scores + _bias(attn_mask, dtype)
            weights = torch.softmax(scores, -1)
            if drops:
                weights = weights * self.dropout_mask(weights.shape, dropout_p, dtype)
            return weights @ value


def _bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bias that is added to the scores, from an attention mask that is boolean or a bias already.

    Masked positions get the lowest finite number. With -inf, the softmax of a fully masked row would be NaN.
    """
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
