"""Linear layers whose weights are packed once for oneDNN on a CPU, fused with the operation that follows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

Linear: TypeAlias = Callable[..., Tensor]
"""`linear(x)` or `linear(x, other)`: the product, then the activation, then `other` is added or multiplied."""

ROWS_TO_PACK_FOR = 2048
"""The number of tokens in a batch for which oneDNN chooses the layout of weights; other numbers work too."""

ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], str, str]] = {
    "none": (lambda x: x, "none", ""),
    "gelu": (functional.gelu, "gelu", "none"),
    "gelu_new": (partial(functional.gelu, approximate="tanh"), "gelu", "tanh"),
    "relu": (functional.relu, "relu", ""),
    "silu": (functional.silu, "swish", ""),
}
"""For each activation, its function, and its name and variant in oneDNN."""


class Products:
    """Packs linear layers for oneDNN; their weights are copied in the type of the states between layers."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        """The type of states and weights."""

    def copied(self, tensor: Tensor) -> Tensor:
        """Return a copy in the type of the states."""
        return tensor.detach().to(self.dtype, copy=True)

    def linear(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        activation: str = "none",
        join: str = "add",
    ) -> Linear:
        """Return `x -> activation(x @ weight.T + bias)` for weights `(out, width)` and a bias `(out,)`.

        If the function gets a second argument, the result is added to it (`join="add"`) or multiplied by it
        (`"mul"`). A layer has either an activation or a second argument.
        """
        weight = self.copied(weight)
        if bias is not None:
            bias = self.copied(bias)

        activate, post, variant = ACTIVATIONS[activation]
        if not _onednn_multiplies(weight):

            def plain(x: Tensor, other: Tensor | None = None) -> Tensor:
                y = activate(functional.linear(x, weight, bias))
                if other is None:
                    return y
                if join == "add":
                    return y + other

                return y * other

            return plain

        product = torch.ops.mkldnn._linear_pointwise
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS_TO_PACK_FOR)

        def prepacked(x: Tensor, other: Tensor | None = None) -> Tensor:
            y: Tensor
            if other is None:
                y = product(x, packed, bias, post, [], variant)
            else:
                y = product.binary(x, other, packed, bias, join)

            return y

        return prepacked

    def linear_of(
        self,
        layer: Any,
        activation: str = "none",
        join: str = "add",
    ) -> Linear:
        """Return a packed copy of an `nn.Linear`; the other arguments are those of `linear`."""
        return self.linear(layer.weight, layer.bias, activation, join)

    def joint(self, *layers: Any) -> Linear:
        """Return several `nn.Linear` of the same input as one product (queries, keys and values)."""
        weight = torch.cat([layer.weight for layer in layers])
        bias = None
        if layers[0].bias is not None:
            bias = torch.cat([layer.bias for layer in layers])

        return self.linear(weight, bias)

    def inner(
        self,
        widen: Any,
        activation: str,
        narrow: Any,
    ) -> Linear:
        """Return a feed-forward layer of two `nn.Linear`, which adds its second argument to the result."""
        first = self.linear_of(widen, activation)
        second = self.linear_of(narrow)
        return lambda x, other: second(first(x), other)

    def gated_inner(
        self,
        gate: Any,
        activation: str,
        widen: Any,
        narrow: Any,
    ) -> Linear:
        """Return a feed-forward layer whose inner states are multiplied by those of a gate."""
        gates = self.linear_of(gate, activation)
        first = self.linear_of(widen, join="mul")
        second = self.linear_of(narrow)
        return lambda x, other: second(first(x, gates(x)), other)


def _onednn_multiplies(weight: Tensor) -> bool:
    """Whether oneDNN can multiply by this weight on this machine."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype != torch.bfloat16:
        return True

    # oneDNN refuses bf16 on processors without AVX-512.
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def is_plain(model: Any) -> bool:
    """Whether all layers of a model are classes of torch and transformers, not adapters or layers in 4 bits."""
    packages = ("torch.nn.modules.", "transformers.")
    return all(type(part).__module__.startswith(packages) for part in model.modules())
