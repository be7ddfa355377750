"""Learning-rate schedules: functions from the step to a multiplier of the peak learning rate."""

from __future__ import annotations

import math
from typing import ClassVar

import attrs
from attrs.validators import and_, ge, le
from sentbed.protocols import Schedule


def _span(length: float, total_steps: int) -> float:
    """Return a length in steps. A `length` below 1 is a share of all steps, else it is a number of steps."""
    if length < 1:
        return length * total_steps

    return length


def _left(
    step: int,
    start: float,
    total_steps: int,
) -> float:
    """Return the share of the steps from `start` to the end that is still left at `step`."""
    if step <= start:
        return 1.0

    return max(0.0, (total_steps - step) / max(1e-12, total_steps - start))


@attrs.frozen
class WarmedUp(Schedule):
    """A schedule that begins with a linear warm-up."""

    warmup: float = attrs.field(default=0.0, validator=ge(0))
    """Length of the linear warm-up from 0: a share of all steps if below 1, else a number of steps."""

    def warm(self, step: int, total_steps: int) -> float:
        """Return the multiplier of the warm-up: it rises from 0 to 1, and is always 1 without a warm-up."""
        span = _span(self.warmup, total_steps)
        if span == 0:
            return 1.0

        return min(1.0, step / span)

    def left(self, step: int, total_steps: int) -> float:
        """Return the share of the steps after the warm-up that is still left."""
        return _left(step, _span(self.warmup, total_steps), total_steps)


@attrs.frozen
class Constant(WarmedUp):
    """The same learning rate throughout, after the warm-up."""

    name: ClassVar[str] = "constant"

    def factor(self, step: int, total_steps: int) -> float:
        """Return the multiplier, in [0, 1]."""
        return self.warm(step, total_steps)


@attrs.frozen
class Linear(WarmedUp):
    """Linear decay to 0 over the steps after the warm-up, as SimCSE trains."""

    name: ClassVar[str] = "linear"

    def factor(self, step: int, total_steps: int) -> float:
        """Return the multiplier, in [0, 1]."""
        return self.warm(step, total_steps) * self.left(step, total_steps)


@attrs.frozen
class LinearAfterHold(Schedule):
    """The full learning rate for a while, then linear decay to 0.

    Source: Sentence-T5, section 4.3, where the rate is constant for the first tenth of the steps.
    """

    name: ClassVar[str] = "linear-after-hold"

    hold: float = attrs.field(default=0.1, validator=ge(0))
    """Length of the constant phase: a share of all steps if below 1, else a number of steps."""

    def factor(self, step: int, total_steps: int) -> float:
        """Return the multiplier, in [0, 1]."""
        return _left(step, _span(self.hold, total_steps), total_steps)


@attrs.frozen
class Cosine(WarmedUp):
    """Half a cosine from 1 to `floor` over the steps after the warm-up."""

    name: ClassVar[str] = "cosine"

    floor: float = attrs.field(default=0.0, validator=and_(ge(0.0), le(1.0)))
    """The multiplier at the end, in [0, 1]."""

    def factor(self, step: int, total_steps: int) -> float:
        """Return the multiplier, in [0, 1]."""
        passed = math.pi * (1 - self.left(step, total_steps))
        decayed = self.floor + (1 - self.floor) * (1 + math.cos(passed)) / 2
        return self.warm(step, total_steps) * decayed


@attrs.frozen
class RelativeStep(Schedule):
    """The inverse square root of the step, at most 0.01, as Adafactor's `relative_step`.

    With `lr = 1.0` this is the learning rate of T5's pretraining: 0.01 for 10,000 steps, then the inverse
    square root of the step. It does not depend on the total number of steps.

    Source: Shazeer and Stern (2018), section 9.
    """

    name: ClassVar[str] = "relative-step"

    warmup_init: bool = False
    """Whether the multiplier grows by 1e-6 per step up to 0.01, instead of starting at 0.01."""

    def factor(self, step: int, total_steps: int) -> float:
        """Return the multiplier, in (0, 0.01]."""
        number = step + 1
        largest = 1e-2
        if self.warmup_init:
            largest = 1e-6 * number
        return min(largest, 1 / math.sqrt(number))
