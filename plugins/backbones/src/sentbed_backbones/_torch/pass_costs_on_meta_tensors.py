"""Operations and kept memory of forward and backward passes, counted on tensors of the device `meta`.

Three lengths determine how they grow with the length of a text: attention makes them polynomials of degree
two.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from sentbed_common import Cost, OutlineContext
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from sentbed_backbones._torch.weight_dtypes import DTYPES

LENGTHS = (8, 16, 24)
"""Lengths of the texts in the trial passes, in tokens."""
FEWER = 2
"""Texts in a trial pass; a second pass has one more. With a single text, some copies would be views."""


def costs(module: Any, context: OutlineContext) -> tuple[Cost, Cost, Cost]:
    """Return forward and backward operations of a module on `meta`, and the bytes that autograd keeps.

    The module is `module(input_ids, None) -> TokenStates`; its tensors are replaced.
    """
    # Autocast does not support the device `meta`.
    with FakeTensorMode():
        _fake(module)
        return _Passes(module, context).costs()


def _fake(module: Any) -> None:
    """Replace the tensors on `meta` by fake tensors of the current mode."""
    found: dict[int, Any] = {}
    for part in module.modules():
        for held in (part._parameters, part._buffers):
            for name, tensor in held.items():
                if tensor is None:
                    continue
                # Tied weights stay tied.
                if id(tensor) not in found:
                    empty = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
                    if held is part._parameters:
                        empty = torch.nn.Parameter(
                            empty, requires_grad=tensor.requires_grad
                        )
                    found[id(tensor)] = empty
                held[name] = found[id(tensor)]


def _operations_of_attention(
    query: Any, key: Any, value: Any, *_: Any, **__: Any
) -> int:
    return int(sdpa_flop_count(query, key, value))


def _operations_of_its_gradient(
    gradient: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any
) -> int:
    return int(sdpa_backward_flop_count(gradient, query, key, value))


FUSED = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _operations_of_attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _operations_of_its_gradient,
}
"""Operations that torch's counter does not know."""


class _Passes:
    """Forward and backward passes of a module of fake tensors."""

    def __init__(self, module: Any, context: OutlineContext) -> None:
        self.module, self.context = module, context
        self.own = {p.untyped_storage()._cdata for p in module.parameters()}

    def costs(self) -> tuple[Cost, Cost, Cost]:
        """Return forward and backward operations, attention in full, and the bytes that autograd keeps."""
        if not self.context.training:
            with torch.no_grad():
                fewer = {
                    length: self._once(FEWER, length, backward=False)
                    for length in LENGTHS
                }
            return _polynomial(lambda length: fewer[length][0] / FEWER), Cost(), Cost()
        fewer = {length: self._once(FEWER, length, backward=True) for length in LENGTHS}
        more = {
            length: self._once(FEWER + 1, length, backward=False) for length in LENGTHS
        }
        forward = _polynomial(lambda length: fewer[length][0] / FEWER)
        backward = _polynomial(lambda length: fewer[length][1] / FEWER)
        kept = _polynomial(lambda length: more[length][2] - fewer[length][2])
        once = fewer[LENGTHS[-1]][2] - kept.of(FEWER, LENGTHS[-1])
        return forward, backward, Cost(max(0.0, once), kept.text, kept.token, kept.pair)

    def _once(self, texts: int, length: int, backward: bool) -> tuple[int, int, int]:
        seen: dict[int, Any] = {}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in self.own:
                # Kept alive: the id of a freed storage would be reused.
                seen[storage._cdata] = storage
            return tensor

        def counter() -> FlopCounterMode:
            return FlopCounterMode(display=False, custom_mapping=FUSED)

        # Compilers for TPUs have no fused attention.
        how = (
            sdpa_kernel(SDPBackend.MATH)
            if self.context.device == "tpu"
            else nullcontext()
        )
        with how:
            with (
                torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
                counter() as first,
            ):
                output = self._read(texts, length)
            with counter() as second:
                if backward and output.requires_grad:
                    output.backward()
        self.module.zero_grad(set_to_none=True)
        kept = sum(storage.nbytes() for storage in seen.values())
        return first.get_total_flops(), second.get_total_flops(), kept

    def _read(self, texts: int, length: int) -> torch.Tensor:
        """Return a scalar that depends on everything a pooler reads."""
        ids = torch.zeros(texts, length, dtype=torch.long)
        dtype = DTYPES[self.context.precision]
        with torch.autocast("cpu", dtype, dtype != torch.float32):
            states = self.module(ids, None)
        first = (
            states.last_hidden_state
            if states.decoder_state is None
            else states.decoder_state
        )
        read = [first, *(states.layers or ())]
        return sum((part.float().sum() for part in read), torch.zeros(()))


def _polynomial(value: Callable[[int], float]) -> Cost:
    """Return the cost of one text as the polynomial through its values at `LENGTHS`."""
    a, b, c = LENGTHS
    at = {length: value(length) for length in LENGTHS}
    slope, next_slope = (at[b] - at[a]) / (b - a), (at[c] - at[b]) / (c - b)
    pair = (next_slope - slope) / (c - a)
    token = slope - pair * (a + b)
    return Cost(0.0, at[a] - token * a - pair * a * a, token, pair)
