"""Floating-point operations and peak memory of forward passes, counted while PyTorch runs them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry


@attrs.frozen
class PassCost:
    """The floating-point operations and the peak memory of forward passes."""

    operations: int = 0
    """Number of operations in matrix products, convolutions and attention, two per multiply-add."""
    peak_bytes: int = 0
    """Largest total size, at any time, of the tensors that the passes had allocated and not yet freed."""


def pass_cost(passes: Callable[[], object]) -> PassCost:
    """Call `passes`, and return the cost of what it computes in this thread."""
    with _CostCounter() as counter:
        passes()
    return PassCost(counter.operations, counter.peak)


def parameters(module: Any) -> int:
    """Return the number of parameters of a module.

    A shared parameter counts once. Of 4-bit parameters, the weights are counted, not the bytes that store them.
    """
    return sum(math.prod(_shape(parameter)) for parameter in module.parameters())


def weight_bytes(module: Any) -> int:
    """Return the size in bytes of the parameters and buffers of a module."""
    return sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))


def _shape(parameter: Any) -> tuple[int, ...]:
    """Return the shape of a parameter; of a 4-bit parameter, the shape of its weights."""
    # bitsandbytes stores two 4-bit weights in a byte, and the shape of the weights in `quant_state`.
    state = getattr(parameter, "quant_state", None)
    if state is not None:
        return tuple(state.shape)
    return tuple(parameter.shape)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *_: Any,
    **__: Any,
) -> int:
    """Return the operations of attention: query times key, and the weights times value.

    PyTorch 2.10's own count asks for as many heads of keys as of queries.
    """
    texts, heads, length, width = query.shape
    return 2 * texts * heads * length * key.shape[-2] * (width + value.shape[-1])


_ATEN = torch.ops.aten
_COUNTS: dict[Any, Callable[..., int]] = dict(flop_registry)
"""Operation -> function that returns its floating-point operations, from its arguments and its result.

PyTorch's own `flop_registry` lacks the attention of a CPU.
"""
_COUNTS[_ATEN._scaled_dot_product_flash_attention_for_cpu] = _attention
_COUNTS[_ATEN._scaled_dot_product_flash_attention_for_cpu_backward] = flop_registry[
    _ATEN._scaled_dot_product_flash_attention_backward
]


class _CostCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types for it
    """Counts operations, and sums the sizes of all storages that are allocated and not yet freed.

    PyTorch's own counter knows nothing of memory.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types for it
        self.storages: set[int] = set()
        self.operations = self.size = self.peak = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        count = _COUNTS.get(func._overloadpacket)
        # The device of a fake tensor is asked for by an operation that has no parts.
        if count is None and func is not torch.ops.prim.device.default:
            with self:
                result = func.decompose(*args, **named)
            if result is not NotImplemented:
                return result
        arguments = _storages((args, named))
        result = func(*args, **named)
        if count is not None:
            self.operations += count(*args, **named, out_val=result)
        for key, tensor in _storages(result).items():
            # Views and results in place have the storage of an argument.
            if key not in arguments and key not in self.storages:
                self._add_storage(tensor, key)

        return result

    def _add_storage(self, tensor: torch.Tensor, key: int) -> None:
        """Count the size of a storage from now until it is freed."""
        size = tensor.untyped_storage().nbytes()
        self.storages.add(key)
        self.size += size
        self.peak = max(self.peak, self.size)
        weakref.finalize(tensor.untyped_storage(), self._remove_storage, key, size)

    def _remove_storage(self, key: int, size: int) -> None:
        """Subtract the size of a storage that is freed."""
        self.storages.discard(key)
        self.size -= size


def _storages(tree: object) -> dict[int, torch.Tensor]:
    """Return address of a storage -> tensor with that storage, for all tensors in a tree of containers.

    If several tensors share a storage, the last one is returned.
    """
    storages = {}
    for leaf in tree_leaves(tree):
        if isinstance(leaf, torch.Tensor):
            storages[int(leaf.untyped_storage()._cdata)] = leaf
    return storages
