"""The inner layer of a block, two products with an activation between them, in int8.

The states in the middle are the widest of all, and never exist but in uint8: the first product writes them
as the second reads them, with one scale for all channels. There, behind the activation, a few channels have
values many times as large as the others, and no smoothing can reach them. Such a channel is cut into pieces
of equal height, each a channel of its own: the first is clamped at the height, the second is the activation
of what the input has above it, and so on; the second product, in which they have the same weights, adds them
up (outlier channels are doubled by Zhao et al., 2019, "Improving neural network quantization without
retraining using outlier channel splitting", section 3, who halve them). Behind ReLU that is exact; behind
GELU it errs by at most 0.17 near the height, the mean of which is in the bias.
"""

from __future__ import annotations

from itertools import product

import attrs
import torch
from torch.nn import functional

from sentbed_backbones._torch.int8_linear import (
    LEAST_SCALE,
    Int8Part,
    Integers,
    Pair,
    Rounding,
    steps,
)
from sentbed_backbones._torch.prepacked_cpu_linear import (
    ACTIVATIONS,
    Linear,
    joined,
    linear,
)

SHARES = (1 / 48, 1 / 24)
"""How many channels may be added, as shares of the width; what errs least is taken, which may be none."""

SLOPES = (1.0, 2.0)
"""The least slope of the pieces beyond the first: the steeper, the less GELU errs, and the more of them."""

EVERY = 8
"""Of the tokens observed, how many make one on which errors are compared."""

HEADROOM = 1.1
"""How far the pieces of a channel reach, as a multiple of the largest value observed."""

STEEPEST = 8.0
"""The largest slope of a piece."""

HALVINGS = 30
"""How often the interval in which the height lies is halved."""


class Int8Inner(Int8Part):
    """`inner(x)`, or `inner(x, other)`: see `Products.inner`."""

    def __init__(
        self,
        widen: Pair,
        activation: str,
        narrow: Pair,
        result: torch.dtype,
        kept: torch.dtype,
    ) -> None:
        super().__init__(widen[0].shape[1], len(narrow[0]), kept)
        self.widen, self.activation, self.narrow = widen, activation, narrow
        self.result = result
        self.low = 0.0
        """The least value behind the activation, or 0."""
        self.high = torch.zeros(len(widen[0]))
        """The largest behind the activation, by channel, or 0."""
        self.sample: list[torch.Tensor] = []
        """Some of the inputs observed."""

    def exact(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """See `Int8Part.exact`."""
        return joined(functional.linear(self._wide(x), *self.narrow), other)

    def observe(
        self, x: torch.Tensor, other: torch.Tensor | None = None
    ) -> torch.Tensor:
        """See `Int8Part.observe`."""
        wide = self._wide(x)
        self.low = min(self.low, float(wide.min()))
        self.high = torch.maximum(self.high, wide.amax(0))
        self.sample.append(x[::EVERY].float())
        return super().observe(x, other)

    def int8(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """See `Int8Part.int8`."""
        read = self.second
        wide = self.first(
            self.rounding(x), self.activation, torch.uint8, read.scale, read.zero
        )
        return (
            read(wide, "none", self.result) if other is None else read.plus(wide, other)
        )

    def left_out(self) -> Linear:
        """See `Int8Part.left_out`."""
        (wide, bias), (slim, last) = self.widen, self.narrow
        widen = linear(wide.to(self.kept), bias.to(self.kept), self.activation)
        narrow = linear(slim.to(self.kept), last.to(self.kept))

        def run(x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
            return joined(narrow(widen(x.to(self.kept))).to(self.result), other)

        return run

    def round(self) -> None:
        """See `Int8Part.round`."""
        x = torch.cat(self.sample)
        exact, least = self.exact(x), float("inf")
        for share, slope in [(0.0, 1.0), *product(SHARES, SLOPES)]:
            tried = self._cut(round(share * len(self.high)), slope, x, exact)
            if tried[0] < least:
                least, self.cuts, self.rounding, self.first, self.second = tried

    def forget(self) -> None:
        """See `Int8Part.forget`."""
        del self.widen, self.narrow, self.observed, self.high, self.sample, self.cuts

    def _wide(self, x: torch.Tensor) -> torch.Tensor:
        return ACTIVATIONS[self.activation][0](
            functional.linear(x.float(), *self.widen)
        )

    def _cut(
        self, more: int, slope: float, x: torch.Tensor, exact: torch.Tensor
    ) -> tuple[float, Cuts, Rounding, Integers, Integers]:
        """Return the squared error with `more` channels, and what computes it."""
        cuts = cut(self.high, more, slope)
        channels, slopes = cuts.channels, cuts.slopes
        weight, bias = self.widen
        rounding, first = self.observed.rounded(
            self.observed.smoothing(weight),
            weight[channels] * slopes[:, None],
            (bias[channels] - cuts.starts) * slopes,
        )
        weight, bias = self.narrow
        scale, zero = steps(self.low, cuts.height)
        second = Integers.of(
            weight[:, channels] / slopes, bias, torch.zeros(len(channels)), scale, zero
        )
        wide = first(rounding(x), self.activation, torch.uint8, scale, zero)
        error = exact - second(wide, "none", torch.float32)
        mean = error.mean(0)
        second = attrs.evolve(second, bias=second.bias + mean)
        return float((error - mean).square().sum()), cuts, rounding, first, second


@attrs.frozen(eq=False)
class Cuts:
    """The pieces of channels, those of a channel in a row."""

    height: float
    """The largest value of a piece."""
    channels: torch.Tensor
    """Of which channel each is a piece."""
    starts: torch.Tensor
    """Where it begins: 0 for the first of a channel."""
    slopes: torch.Tensor
    """By what its input is multiplied: 1 for the first of a channel."""


def cut(most: torch.Tensor, more: int, slope: float) -> Cuts:
    """Cut channels of up to `most` into at most `more` pieces more than one each, of the least height.

    All pieces but the first of a channel have a slope of at least `slope`.
    """
    most = most.clamp(min=LEAST_SCALE)

    def pieces(height: float) -> torch.Tensor:
        return (
            (slope * (HEADROOM * most - height) / height)
            .ceil()
            .where(most > height, 0.0)
        )

    low, high = 0.0, float(most.max())
    for _ in range(HALVINGS if more else 0):
        middle = (low + high) / 2
        if float(pieces(middle).sum()) > more:
            low = middle
        else:
            high = middle
    added = pieces(high).long()
    channels = torch.arange(len(added)).repeat_interleave(added + 1)
    before = torch.arange(len(channels)) - ((added + 1).cumsum(0) - added - 1)[channels]
    rest = (added * high / (HEADROOM * most - high)).clamp(slope, STEEPEST)
    slopes = torch.where(before > 0, rest[channels], 1.0)
    starts = torch.where(before > 0, high + (before - 1) * high / slopes, 0.0)
    return Cuts(high, channels, starts, slopes)
