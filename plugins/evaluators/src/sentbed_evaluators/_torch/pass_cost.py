"""Operations and memory of forward passes, counted while PyTorch runs them."""

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
class Counted:
    """The operations and the peak memory of passes."""

    operations: int
    """Floating-point operations of matrix products, convolutions and attention, two per multiply-add."""
    peak: int
    """Largest total size in bytes of tensors, made by the passes, that lived at one time."""


def counted(passes: Callable[[], object]) -> Counted:
    """Run `passes` in this thread; return its operations and peak memory."""
    with _Counting() as counting:
        passes()
    return Counted(counting.operations, counting.peak)


def parameters(module: Any) -> int:
    """Return the number of parameters of a module; shared ones count once, and those in 4 bits as numbers."""
    return sum(math.prod(_shape(parameter)) for parameter in module.parameters())


def weight_bytes(module: Any) -> int:
    """Return the size in bytes of the parameters and buffers of a module."""
    return sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))


def _shape(parameter: Any) -> tuple[int, ...]:
    # bitsandbytes holds two weights in a byte, and their shape beside them.
    state = getattr(parameter, "quant_state", None)
    if state is not None:
        return tuple(state.shape)
    return tuple(parameter.shape)


def _linear(x: torch.Tensor, *_: Any, out_val: torch.Tensor, **__: Any) -> int:
    return 2 * out_val.numel() * x.shape[-1]


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any
) -> int:
    texts, heads, length, width = query.shape
    return 2 * texts * heads * length * key.shape[-2] * (width + value.shape[-1])


_COUNTS: Mapping[Any, Callable[..., int]] = {
    **flop_registry,
    # Operations on a processor that PyTorch's own counter does not know; the first needs oneDNN.
    **({torch.ops.mkldnn._linear_pointwise: _linear} if torch._C._has_mkldnn else {}),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
}
"""Operation -> function of its arguments and result that returns its number of floating-point operations."""


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types for it
    """Counts operations, and adds up the sizes of storages from their allocation until they are freed.

    PyTorch's own counter puts hooks on modules, which keep a compiler from running them.
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
        if count is None:
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
            if key and key not in arguments and key not in self.storages:
                self._hold(tensor, key)
        return result

    def _hold(self, tensor: torch.Tensor, key: int) -> None:
        size = tensor.untyped_storage().nbytes()
        self.storages.add(key)
        self.size += size
        self.peak = max(self.peak, self.size)
        weakref.finalize(tensor.untyped_storage(), self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self.storages.discard(key)
        self.size -= size


def _storages(tree: object) -> dict[int, torch.Tensor]:
    """Return number of the storage -> last tensor with it, for the tensors in a tree."""
    storages = {}
    for leaf in tree_leaves(tree):
        if isinstance(leaf, torch.Tensor):
            storages[_storage(leaf)] = leaf
    return storages


def _storage(tensor: torch.Tensor) -> int:
    """Return the number of a tensor's storage; 0 if it has none, such as weights packed by oneDNN."""
    if tensor.is_mkldnn:
        return 0
    return int(tensor.untyped_storage()._cdata)
