"""Products of a packed form in int8, calibrated on texts.

Weights are rounded to int8 with a scale for each output. Inputs are rounded to uint8 with one scale and one
zero for all tokens, from the smallest and the largest value that the texts gave (static quantisation). First,
channels with large inputs are divided by factors that the weights take over (SmoothQuant, Xiao et al., 2023,
equation 4); the mean error that rounded weights make is taken out of the bias. Products that hurt are found
on the same texts and stay in the type of attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import torch
from torch.nn import functional

from sentbed_backbones._torch.prepacked_cpu_linear import (
    ACTIVATIONS,
    ROWS_TO_PACK_FOR,
    Linear,
    Products,
    linear,
)

Pass: TypeAlias = Callable[[], torch.Tensor]
"""Encodes the texts with the products as they are; returns vectors `(texts, width)`."""

LEAST_COSINE = 0.995
"""The least mean cosine between the texts' vectors and those in fp32; until it is reached, products are left
out."""

ALPHA = 0.7
"""How much of the range of inputs is given to the weights: from 0, nothing, to 1, all. With less, outliers
behind GELU cost more; with more, channels that were quiet on the texts are clamped on others."""

LEAST_SCALE = 1e-8
"""Scale of a channel that is always 0."""


@attrs.frozen
class Calibration:
    """The result of a calibration."""

    cosine: float
    """Mean cosine between the texts' vectors and those in fp32."""
    left_out: tuple[str, ...]
    """The products that are not in int8: numbers in the order in which the packed form makes them, and the
    widths from and to which they lead."""


class Int8Products(Products):
    """Products that observe their inputs until `calibrate` puts them into int8."""

    def __init__(self) -> None:
        super().__init__(torch.float32)
        self.attention = torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32
        self.made: list[Int8Linear] = []

    def linear(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        activation: str = "none",
        join: str = "add",
        *,
        attends: bool = False,
    ) -> Linear:
        """Return a product that observes its inputs; see `Products.linear`."""
        bias = torch.zeros(len(weight)) if bias is None else self.copied(bias)
        result = self.attention if attends else self.dtype
        made = Int8Linear(self.copied(weight), bias, activation, join, result, self.attention)
        self.made.append(made)
        return made

    def calibrate(self, encode: Pass) -> Calibration:
        """Put the products into int8 that can be, after a few passes over the texts."""
        exact = encode()
        for product in self.made:
            product.round()

        def cosine(left_out: Sequence[int]) -> float:
            for number, product in enumerate(self.made):
                product.choose(number not in left_out)
            return float(functional.cosine_similarity(encode(), exact).mean())

        found, left_out = cosine(()), []
        if found < LEAST_COSINE:
            for product in self.made:
                product.run = product.compare
            encode()
            worst = sorted(range(len(self.made)), key=lambda number: -self.made[number].error)
            too_few, enough = 0, len(worst)
            while enough - too_few > 1:
                # Usually few hurt: one is tried, two, four, and then what lies between.
                middle = (too_few + enough) // 2 if enough < len(worst) else max(1, 2 * too_few)
                middle = min(middle, enough - 1)
                if cosine(worst[:middle]) < LEAST_COSINE:
                    too_few = middle
                else:
                    enough = middle
            left_out = sorted(worst[:enough])
            found = cosine(left_out)
        for product in self.made:
            product.forget()
        return Calibration(found, tuple(f"{number} ({self.made[number].shape})" for number in left_out))


class Int8Linear:
    """`linear(x)`, or `linear(x, other)`: see `Products.linear`."""

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor,
        activation: str,
        join: str,
        result: torch.dtype,
        type_left_out: torch.dtype,
    ) -> None:
        self.weight, self.bias = weight, bias
        self.activation, self.join = activation, join
        self.shape = f"{weight.shape[1]} to {weight.shape[0]}"
        self.result, self.type_left_out = result, type_left_out
        self.low = self.high = torch.zeros(weight.shape[1])
        """Least and largest input of each channel, 0 included."""
        self.sum, self.count = torch.zeros(weight.shape[1]), 0
        self.error = 0.0
        """Sum over tokens of the squared error of the result, as a share of its square."""
        self.run: Linear = self.observe

    def __call__(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """Return the product, then the activation, then the join with `other`."""
        return self.run(x, other)

    def exact(self, x: torch.Tensor, other: torch.Tensor | None) -> torch.Tensor:
        """Return the product in fp32."""
        y = ACTIVATIONS[self.activation][0](functional.linear(x.float(), self.weight, self.bias))
        return y if other is None else self._joined(y, other)

    def observe(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """Return the product in fp32, and take note of the inputs."""
        rows = x.float().reshape(-1, x.shape[-1])
        self.low = torch.minimum(self.low, rows.amin(0))
        self.high = torch.maximum(self.high, rows.amax(0))
        self.sum, self.count = self.sum + rows.sum(0), self.count + len(rows)
        return self.exact(x, other)

    def round(self) -> None:
        """Round the weights for inputs like those observed."""
        inputs = torch.maximum(self.high, -self.low).clamp(min=LEAST_SCALE)
        outputs = self.weight.abs().amax(0).clamp(min=LEAST_SCALE)
        factors = inputs**ALPHA / outputs ** (1 - ALPHA)
        weight = self.weight * factors
        least, most = float((self.low / factors).min()), float((self.high / factors).max())
        self.scale = max((most - least) / 255, LEAST_SCALE)
        self.zero = round(-least / self.scale)
        self.smoothing, self.factors = factors, 1 / (factors * self.scale)
        self.offsets = torch.full_like(factors, self.zero + 0.5)
        self.scales = weight.abs().amax(1).clamp(min=LEAST_SCALE) / 127
        rounded = (weight / self.scales[:, None]).round().to(torch.int8)
        mean = self.sum / max(1, self.count) / factors
        self.corrected = self.bias + (weight - rounded * self.scales[:, None]) @ mean
        self.zeros = torch.zeros(len(weight), dtype=torch.int64)
        self.packed = torch.ops.onednn.qlinear_prepack(rounded, [ROWS_TO_PACK_FOR, weight.shape[1]])

    def int8(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """Return the product of rounded weights and inputs."""
        return self._product(x, other, self.result)

    def compare(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """Return the product in fp32, and take note of the error that int8 would make."""
        y = self.exact(x, other)
        difference = self._product(x, other, torch.float32) - y
        squares = (part.square().flatten(0, -2).sum(1) for part in (difference, y))
        self.error += float(torch.div(*squares).nan_to_num(0.0, 0.0).sum())
        return y

    def choose(self, int8: bool) -> None:
        """Compute in int8 or not."""
        self.run = self.int8 if int8 else self._left_out()

    def forget(self) -> None:
        """Drop what only the calibration needed."""
        del self.weight, self.low, self.high, self.sum

    def _left_out(self) -> Linear:
        kept = self.type_left_out
        product = linear(self.weight.to(kept), self.bias.to(kept), self.activation, self.join)

        def run(x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
            y = product(x.to(kept)).to(self.result)
            return y if other is None else self._joined(y, other)

        return run

    def _joined(self, y: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return y + other if self.join == "add" else y * other

    def _product(self, x: torch.Tensor, other: torch.Tensor | None, result: torch.dtype) -> torch.Tensor:
        what = (quantized(x, self.factors, self.offsets), self.scale, self.zero, self.packed, self.scales)
        _, post, variant = ACTIVATIONS[self.activation]
        product = torch.ops.onednn.qlinear_pointwise
        y: torch.Tensor
        if other is not None and self.join == "add":
            scales = (1.0, 0, result, 1.0, 0)
            y = product.binary(*what, self.zeros, other, self.corrected, *scales, "add", 1.0, "none", [], "")
            return y
        y = product(*what, self.zeros, self.corrected, 1.0, 0, result, post, [], variant)
        return y if other is None else self._joined(y, other)


def quantized(x: torch.Tensor, factors: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    """Return `x` `(rows, width)` times `factors` plus `zeros`, rounded and clamped to uint8.

    `zeros` include the 0.5 with which cutting off is rounding.
    """
    # From float to uint8 itself, PyTorch converts one number at a time.
    return torch.addcmul(zeros, x.float(), factors).clamp_(0, 255).to(torch.int16).to(torch.uint8)
