"""The temperature of a loss: the settings of a learned one, and validators."""

from __future__ import annotations

import math
from typing import Any, Literal

import attrs
from attrs.validators import gt, optional


@attrs.frozen
class LearnableTemperature:
    """The settings of a temperature that is learned with the weights.

    The optimiser changes one number p, from which the temperature t follows. If t leaves its bounds, it is
    clamped to them, but the gradient ignores this, so that p can return.

    A step of Adam changes p by about the learning rate r, whatever the gradient. So N steps from t = 1 lower t at
    most to exp(-r N) if p is the logarithm, to 1 - r N if p is the value, and to 1 / (1 + r N) if p is the
    inverse.
    """

    initial: float = attrs.field(default=1.0, validator=gt(0))
    """Initial temperature, > 0."""
    min: float = attrs.field(default=0.01, validator=gt(0))
    """Smallest temperature, > 0."""
    max: float = attrs.field(default=100.0, validator=gt(0))
    """Largest temperature, at least `min`."""
    parameter: Literal["log", "value", "inverse"] = "log"
    """The number p that is learned: the logarithm of the temperature (as in CLIP, except for the sign), the
    temperature itself, or its inverse."""
    lr: float | None = attrs.field(default=None, validator=optional(gt(0)))
    """Peak learning rate of p, > 0. It follows the stage's schedule. Default: the learning rate of the
    optimiser."""

    def __attrs_post_init__(self) -> None:
        if not self.min <= self.initial <= self.max:
            raise ValueError(
                f"a learnable temperature starts at {self.initial!r}, which is not between its bounds "
                f"{self.min!r} and {self.max!r}; choose `min` <= `initial` <= `max`"
            )


def positive_temperature(
    _: Any,
    attribute: attrs.Attribute[Any],
    value: float | LearnableTemperature,
) -> None:
    """Refuse a fixed temperature that is not above 0, and allow a learned one; an attrs validator."""
    if not isinstance(value, LearnableTemperature) and not 0 < value < math.inf:
        raise ValueError(
            f"`{attribute.name}` divides the similarities and must be a number > 0, such as 0.05, "
            "or a table such as { initial = 1.0 } to learn it"
        )


def fixed_temperature(
    _: Any,
    attribute: attrs.Attribute[Any],
    value: float,
) -> None:
    """Refuse a temperature that is not above 0; an attrs validator."""
    if not 0 < value < math.inf:
        raise ValueError(
            f"`{attribute.name}` divides the similarities and must be a number > 0, such as 0.05"
        )
