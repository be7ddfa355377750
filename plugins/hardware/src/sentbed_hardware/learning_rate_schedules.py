"""Schedules of the learning rate: step -> multiplier.

They are in one module because they are short and share their warm-up.
"""

from __future__ import annotations

import math
from typing import ClassVar

import attrs
from attrs.validators import and_, ge, le
from sentbed.protocols import Schedule


def _span(length: float, total_steps: int) -> float:
    """Return a length in steps: a share of all steps if below 1, else a number of steps."""
    return length * total_steps if length < 1 else length


def _warm(step: int, warmup: float, total_steps: int) -> float:
    """Return the multiplier of a linear warm-up: 0 at step 0 if there is one, 1 after its end."""
    span = _span(warmup, total_steps)
    return min(1.0, step / span) if span > 0 else 1.0


def _left(step: int, start: float, total_steps: int) -> float:
    """Return the share of the steps from `start` to the end that is left at `step`."""
    return (
        max(0.0, (total_steps - step) / max(1e-12, total_steps - start))
        if step > start
        else 1.0
    )


@attrs.frozen
class Constant(Schedule):
    """The same learning rate throughout, after the warm-up."""

    name: ClassVar[str] = "constant"

    warmup: float = attrs.field(default=0.0, validator=ge(0))
    """Linear warm-up from 0: a share of all steps if below 1, else a number of steps."""

    def factor(self, step: int, total_steps: int) -> float:
        """Return the multiplier, in [0, 1]."""
        return _warm(step, self.warmup, total_steps)


@attrs.frozen
class Linear(Schedule):
    """Linear decay to 0 over the steps after the warm-up, as SimCSE trains."""

    name: ClassVar[str] = "linear"

    warmup: float = attrs.field(default=0.0, validator=ge(0))
    """Linear warm-up from 0: a share of all steps if below 1, else a number of steps."""

    def factor(self, step: int, total_steps: int) -> float:
        """Return the multiplier, in [0, 1]."""
        start = _span(self.warmup, total_steps)
        return _warm(step, self.warmup, total_steps) * _left(step, start, total_steps)


@attrs.frozen
class LinearAfterHold(Schedule):
    """The full learning rate for a while, then linear decay to 0.

    Source: Sentence-T5, section 4.3: constant for the first tenth of the steps.
    """

    name: ClassVar[str] = "linear-after-hold"

    hold: float = attrs.field(default=0.1, validator=ge(0))
    """Length of the constant phase: a share of all steps if below 1, else a number of steps."""

    def factor(self, step: int, total_steps: int) -> float:
        """Return the multiplier, in [0, 1]."""
        return _left(step, _span(self.hold, total_steps), total_steps)


@attrs.frozen
class Cosine(Schedule):
    """Half a cosine from 1 to `floor` over the steps after the warm-up."""

    name: ClassVar[str] = "cosine"

    warmup: float = attrs.field(default=0.0, validator=ge(0))
    """Linear warm-up from 0: a share of all steps if below 1, else a number of steps."""
    floor: float = attrs.field(default=0.0, validator=and_(ge(0.0), le(1.0)))
    """The multiplier at the end, in [0, 1]."""

    def factor(self, step: int, total_steps: int) -> float:
        """Return the multiplier, in [0, 1]."""
        left = _left(step, _span(self.warmup, total_steps), total_steps)
        decayed = (
            self.floor + (1 - self.floor) * (1 + math.cos(math.pi * (1 - left))) / 2
        )
        return _warm(step, self.warmup, total_steps) * decayed


@attrs.frozen
class RelativeStep(Schedule):
    """The inverse square root of the step, at most 0.01, as Adafactor's `relative_step`.

    With `lr = 1.0` it is the rate of T5's pretraining: 0.01 for 10,000 steps, then the inverse square root.
    It does not depend on the total number of steps. Source: Shazeer and Stern (2018), section 9.
    """

    name: ClassVar[str] = "relative-step"

    warmup_init: bool = False
    """Whether the rate grows by 1e-6 a step, to 0.01 at step 10,000, instead of starting at 0.01."""

    def factor(self, step: int, total_steps: int) -> float:
        """Return the multiplier, in (0, 0.01]."""
        number = step + 1
        longest = 1e-6 * number if self.warmup_init else 1e-2
        return min(longest, 1 / math.sqrt(number))
