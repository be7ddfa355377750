"""One product in int8.

Weights are rounded to int8 with a scale for each output. Inputs are rounded to uint8 with one scale for all
tokens, from the ranges of the channels on the texts (static quantisation). First, the middle of its range is
taken from each channel, for which the bias makes up (Outlier Suppression+, Wei et al., 2023), and
channels with wide ranges are divided by factors that the weights take over (SmoothQuant, Xiao et al., 2023,
equation 4); the mean error that rounded weights make is taken out of the bias.
"""

from __future__ import annotations

from typing import Any, Self, TypeAlias

import attrs
import torch
from torch.nn import functional

from sentbed_backbones._torch.prepacked_cpu_linear import (
    ACTIVATIONS,
    ROWS_TO_PACK_FOR,
    Linear,
    joined,
    linear,
)

Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Weights `(out, width)` and bias `(out,)` in fp32."""

ALPHA = 0.7
"""How much of the range of inputs is given to the weights: from 0, nothing, to 1, all. With less, outliers
behind GELU cost more; with more, channels that were quiet on the texts are clamped on others."""

CACHED = 96 * 1024
"""How many inputs each thread rounds at a time, so that they stay in its cache between the steps."""

LEAST_SCALE = 1e-8
"""Scale of a channel that is always 0."""

MARGIN = 1.3
"""How much wider ranges are made than they were on the texts: clamping costs more than coarser steps."""

MIDDLE = 128
"""The input in uint8 that stands for the middle of a channel's range."""

STEPS = 255
"""Between the least and the largest number of an input in uint8."""


@attrs.frozen(eq=False)
class Integers:
    """A product of inputs in uint8, `(rows, width)`, with weights in int8; its sums are exact."""

    scale: float
    """What an input's 1 stands for."""
    zero: int
    """The input that stands for 0."""
    packed: torch.Tensor
    """The weights, laid out for oneDNN."""
    scales: torch.Tensor
    """What a weight's 1 stands for, `(out,)`."""
    zeros: torch.Tensor
    """The weights that stand for 0: all 0."""
    bias: torch.Tensor
    """In fp32, `(out,)`."""

    @classmethod
    def of(
        cls,
        weight: torch.Tensor,
        bias: torch.Tensor,
        mean: torch.Tensor,
        scale: float,
        zero: int,
    ) -> Self:
        """Round weights `(out, width)`; their error on the mean input is taken out of the bias."""
        scales = weight.abs().amax(1).clamp(min=LEAST_SCALE) / 127
        rounded = (weight / scales[:, None]).round().to(torch.int8)
        corrected = bias + (weight - rounded * scales[:, None]) @ mean
        packed = torch.ops.onednn.qlinear_prepack(
            rounded, [ROWS_TO_PACK_FOR, weight.shape[1]]
        )
        return cls(
            scale,
            zero,
            packed,
            scales,
            torch.zeros(len(weight), dtype=torch.int64),
            corrected,
        )

    def __call__(
        self,
        x: torch.Tensor,
        activation: str,
        result: torch.dtype,
        scale: float = 1.0,
        zero: int = 0,
    ) -> torch.Tensor:
        """Return the product, then the activation; in uint8, divided by `scale`, plus `zero`, clamped."""
        _, post, variant = ACTIVATIONS[activation]
        y: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
            *self._operands(x), self.bias, scale, zero, result, post, [], variant
        )
        return y

    def plus(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Return the product plus `other`, `(rows, out)`, in its type."""
        post: tuple[Any, ...] = (1.0, 0, "add", 1.0, "none", [], "")
        y: torch.Tensor = torch.ops.onednn.qlinear_pointwise.binary(
            *self._operands(x), other, self.bias, 1.0, 0, other.dtype, *post
        )
        return y

    def _operands(self, x: torch.Tensor) -> tuple[Any, ...]:
        return x, self.scale, self.zero, self.packed, self.scales, self.zeros


@attrs.frozen(eq=False)
class Rounding:
    """How inputs become uint8: divided by the smoothing's factors and the scale, plus the zero."""

    factors: torch.Tensor
    """`(width,)`; what an input is multiplied by."""
    offsets: torch.Tensor
    """`(width,)`; the zero, and the 0.5 with which cutting off is rounding."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return `x` `(rows, width)`, rounded and clamped to uint8."""
        rounded = torch.empty(x.shape, dtype=torch.uint8)
        rows = max(1, CACHED * torch.get_num_threads() // x.shape[1])
        for part, result in zip(x.split(rows), rounded.split(rows), strict=True):
            wide = torch.addcmul(self.offsets, part.float(), self.factors).clamp_(
                0, STEPS
            )
            # From float to uint8 itself, PyTorch converts one number at a time.
            result.copy_(wide.to(torch.int16))
        return rounded


@attrs.define(eq=False)
class Observed:
    """What the inputs of a product were on the texts, by channel, `(width,)`."""

    low: torch.Tensor
    high: torch.Tensor
    sum: torch.Tensor
    count: int = 0

    @classmethod
    def none(cls, width: int) -> Self:
        """Return what one knows before the first input."""
        return cls(
            torch.full((width,), torch.inf),
            torch.full((width,), -torch.inf),
            torch.zeros(width),
        )

    def add(self, x: torch.Tensor) -> None:
        """Take note of inputs."""
        rows = x.float().reshape(-1, x.shape[-1])
        self.low = torch.minimum(self.low, rows.amin(0))
        self.high = torch.maximum(self.high, rows.amax(0))
        self.sum, self.count = self.sum + rows.sum(0), self.count + len(rows)

    def smoothing(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the factors by which inputs are divided, and weights `(out, width)` multiplied."""
        inputs = ((self.high - self.low) / 2).clamp(min=LEAST_SCALE)
        outputs = weight.abs().amax(0).clamp(min=LEAST_SCALE)
        factors: torch.Tensor = inputs**ALPHA / outputs ** (1 - ALPHA)
        return factors

    def rounded(
        self, factors: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> tuple[Rounding, Integers]:
        """Return how inputs like these become uint8, and the product of such."""
        middle = (self.low + self.high) / 2
        scale = max(
            MARGIN * float(((self.high - self.low) / factors).max()) / STEPS,
            LEAST_SCALE,
        )
        mean = (self.sum / max(1, self.count) - middle) / factors
        inverse = 1 / (factors * scale)
        rounding = Rounding(inverse, MIDDLE + 0.5 - middle * inverse)
        return rounding, Integers.of(
            weight * factors, bias + weight @ middle, mean, scale, MIDDLE
        )


def steps(low: float, high: float) -> tuple[float, int]:
    """Return scale and zero of uint8 for numbers from `low`, at most 0, to `high`, at least 0."""
    scale = max((high - low) / STEPS, LEAST_SCALE)
    return scale, round(-low / scale)


class Int8Part:
    """One product or two, as `part(x)` or `part(x, other)`; observes its inputs until it is rounded."""

    def __init__(self, width: int, out: int, kept: torch.dtype) -> None:
        self.shape = f"{width} to {out}"
        self.kept = kept
        """The type of the weights if it is left out of int8."""
        self.observed = Observed.none(width)
        self.error = 0.0
        """Sum over tokens of the squared error of the result, as a share of its square."""
        self.run: Linear = self.observe

    def __call__(
        self, x: torch.Tensor, other: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the result as it is computed at present."""
        return self.run(x, other)

    def exact(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """Return the result in fp32."""
        raise NotImplementedError

    def int8(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """Return the result of rounded weights and inputs."""
        raise NotImplementedError

    def left_out(self) -> Linear:
        """Pack the weights as they are."""
        raise NotImplementedError

    def round(self) -> None:
        """Round the weights for inputs like those observed."""
        raise NotImplementedError

    def forget(self) -> None:
        """Drop what only the calibration needed."""
        raise NotImplementedError

    def observe(
        self, x: torch.Tensor, other: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the result in fp32, and take note of the inputs."""
        self.observed.add(x)
        return self.exact(x, other)

    def compare(
        self, x: torch.Tensor, other: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the result in fp32, and take note of the error that int8 would make."""
        y = self.exact(x, other)
        squares = (
            part.square().flatten(0, -2).sum(1)
            for part in (self.int8(x, other).float() - y, y)
        )
        self.error += float(torch.div(*squares).nan_to_num(0.0, 0.0).sum())
        return y

    def choose(self, int8: bool) -> None:
        """Compute in int8 or not."""
        self.run = self.int8 if int8 else self.left_out()


class Int8Linear(Int8Part):
    """`linear(x)`, or `linear(x, other)`: see `Products.linear`."""

    def __init__(
        self,
        weights: Pair,
        activation: str,
        join: str,
        result: torch.dtype,
        kept: torch.dtype,
    ) -> None:
        self.weight, self.bias = weights
        super().__init__(self.weight.shape[1], len(self.weight), kept)
        self.activation, self.join, self.result = activation, join, result

    def exact(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """See `Int8Part.exact`."""
        y = ACTIVATIONS[self.activation][0](
            functional.linear(x.float(), self.weight, self.bias)
        )
        return joined(y, other, self.join)

    def int8(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """See `Int8Part.int8`."""
        rounded = self.rounding(x)
        if other is not None and self.join == "add":
            return self.integers.plus(rounded, other)
        return joined(
            self.integers(rounded, self.activation, self.result), other, self.join
        )

    def left_out(self) -> Linear:
        """See `Int8Part.left_out`."""
        product = linear(
            self.weight.to(self.kept),
            self.bias.to(self.kept),
            self.activation,
            self.join,
        )
        return lambda x, other=None: joined(
            product(x.to(self.kept)).to(self.result), other, self.join
        )

    def round(self) -> None:
        """See `Int8Part.round`."""
        self.rounding, self.integers = self.observed.rounded(
            self.observed.smoothing(self.weight), self.weight, self.bias
        )

    def forget(self) -> None:
        """See `Int8Part.forget`."""
        del self.weight, self.bias, self.observed
