"""Linear layers whose weights are packed once for the CPU, with the next operation fused into the product."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

Linear: TypeAlias = Callable[..., Tensor]
"""`linear(x)` or `linear(x, other)`: the product, then the activation, then the join with `other`."""

Weights: TypeAlias = tuple[Tensor, Tensor | None]
"""Weights `(out, width)` and bias `(out,)`."""

ROWS_TO_PACK_FOR = 2048
"""The number of tokens per batch for which oneDNN chooses the layout of the weights; any number works."""

ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], str, str]] = {
    "none": (lambda x: x, "none", ""),
    "gelu": (functional.gelu, "gelu", "none"),
    "gelu_new": (partial(functional.gelu, approximate="tanh"), "gelu", "tanh"),
    "relu": (functional.relu, "relu", ""),
    "silu": (functional.silu, "swish", ""),
}
"""Activations, each with oneDNN's name and variant of it."""


class Products:
    """How a packed form computes its products with weights: with copies of them in `dtype`."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        """The type of the states between products."""

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
        """Return the packed form of a product with a copy of `weight` and `bias`; see `linear`."""
        if bias is not None:
            bias = self.copied(bias)
        return linear(self.copied(weight), bias, activation, join)

    def inner(self, widen: Weights, activation: str, narrow: Weights) -> Linear:
        """Return the packed form of an inner layer: two products, and the join with `other`."""
        first, second = self.linear(*widen, activation), self.linear(*narrow)
        return lambda x, other=None: second(first(x), other)

    def inner_of(self, widen: Any, activation: str, narrow: Any) -> Linear:
        """Return the packed form of an inner layer of two `nn.Linear`."""
        return self.inner(
            (widen.weight, widen.bias), activation, (narrow.weight, narrow.bias)
        )

    def linear_of(
        self, layer: Any, activation: str = "none", join: str = "add"
    ) -> Linear:
        """Return the packed form of a `nn.Linear`."""
        return self.linear(layer.weight, layer.bias, activation, join)


def is_plain(model: Any) -> bool:
    """Whether all layers of a model come from torch and transformers: adapters and 4-bit layers do not."""
    packages = ("torch.nn.modules.", "transformers.")
    return all(type(part).__module__.startswith(packages) for part in model.modules())


def joined(y: Tensor, other: Tensor | None, join: str = "add") -> Tensor:
    """Return the join of a product with `other`, if there is one."""
    if other is None:
        return y
    return y + other if join == "add" else y * other


def linear(
    weight: Tensor,
    bias: Tensor | None,
    activation: str = "none",
    join: str = "add",
) -> Linear:
    """Return `x -> activation(x @ weight.T + bias)`.

    A second argument is added to the result (`join="add"`) or multiplied by it (`"mul"`); a layer takes
    either an activation or a second argument.
    """
    activate, post, variant = ACTIVATIONS[activation]
    # oneDNN refuses bf16 on processors without AVX-512.
    has_type = (
        weight.dtype != torch.bfloat16 or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
    if (
        weight.device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and has_type
    ):
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS_TO_PACK_FOR)

        product = torch.ops.mkldnn._linear_pointwise

        def with_packed(x: Tensor, other: Tensor | None = None) -> Tensor:
            y: Tensor
            if other is None:
                y = product(x, packed, bias, post, [], variant)
            else:
                y = product.binary(x, other, packed, bias, join)
            return y

        return with_packed

    def plain(x: Tensor, other: Tensor | None = None) -> Tensor:
        return joined(activate(functional.linear(x, weight, bias)), other, join)

    return plain
