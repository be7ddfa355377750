"""Products of a packed form in int8, calibrated on texts.

Products that hurt are found on the same texts and stay in the type of attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import torch
from sentbed_common import bf16_instructions
from torch.nn import functional

from sentbed_backbones._torch.int8_inner import Int8Inner
from sentbed_backbones._torch.int8_linear import Int8Linear, Int8Part, Pair
from sentbed_backbones._torch.prepacked_cpu_linear import Linear, Products, Weights

Pass: TypeAlias = Callable[[], torch.Tensor]
"""Encodes the texts with the products as they are; returns vectors `(texts, width)`."""

LEAST_COSINE = 0.995
"""The least mean cosine between the texts' vectors and those in fp32; until it is reached, products are left
out."""


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
        self.attention = torch.float32
        if bf16_instructions():
            self.attention = torch.bfloat16
        self.parts: list[Int8Part] = []

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
        result = self.attention if attends else self.dtype
        part = Int8Linear(
            self._pair(weight, bias), activation, join, result, self.attention
        )
        self.parts.append(part)
        return part

    def inner(self, widen: Weights, activation: str, narrow: Weights) -> Linear:
        """Return an inner layer that observes its inputs; see `Products.inner`."""
        part = Int8Inner(
            self._pair(*widen),
            activation,
            self._pair(*narrow),
            self.dtype,
            self.attention,
        )
        self.parts.append(part)
        return part

    def _pair(self, weight: torch.Tensor, bias: torch.Tensor | None) -> Pair:
        return self.copied(weight), torch.zeros(
            len(weight)
        ) if bias is None else self.copied(bias)

    def calibrate(self, encode: Pass) -> Calibration:
        """Put the products into int8 that can be, after a few passes over the texts."""
        exact = encode()
        for product in self.parts:
            product.round()

        def cosine(left_out: Sequence[int]) -> float:
            for number, product in enumerate(self.parts):
                product.choose(number not in left_out)
            return float(functional.cosine_similarity(encode(), exact).mean())

        left_out: list[int] = []
        mean_cosine = cosine(left_out)
        if mean_cosine < LEAST_COSINE:
            for product in self.parts:
                product.run = product.compare
            encode()
            worst = sorted(
                range(len(self.parts)), key=lambda number: -self.parts[number].error
            )
            too_few, enough = 0, len(worst)
            while enough - too_few > 1:
                # Usually few hurt: one is tried, two, four, and then what lies between.
                middle = (
                    (too_few + enough) // 2
                    if enough < len(worst)
                    else max(1, 2 * too_few)
                )
                middle = min(middle, enough - 1)
                if cosine(worst[:middle]) < LEAST_COSINE:
                    too_few = middle
                else:
                    enough = middle
            left_out = sorted(worst[:enough])
            mean_cosine = cosine(left_out)
        for product in self.parts:
            product.forget()
        return Calibration(
            mean_cosine,
            tuple(f"{number} ({self.parts[number].shape})" for number in left_out),
        )
