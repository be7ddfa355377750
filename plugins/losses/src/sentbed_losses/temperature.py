"""The temperature of a contrastive loss."""

from __future__ import annotations

import math
from typing import Any

import attrs
from attrs.validators import gt


@attrs.frozen
class LearnableTemperature:
    """A temperature whose logarithm is learned with the weights."""

    initial: float = attrs.field(default=1.0, validator=gt(0))
    """Initial temperature, > 0."""
    min: float = attrs.field(default=0.01, validator=gt(0))
    """Smallest temperature, > 0."""
    max: float = attrs.field(default=100.0, validator=gt(0))
    """Largest temperature, at least `min`."""

    def __attrs_post_init__(self) -> None:
        if not self.min <= self.initial <= self.max:
            raise ValueError(
                f"a learnable temperature starts at {self.initial!r}, which is not between its bounds "
                f"{self.min!r} and {self.max!r}; choose `min` <= `initial` <= `max`"
            )


def positive_temperature(
    _: Any, attribute: attrs.Attribute[Any], value: float | LearnableTemperature
) -> None:
    """Refuse a fixed temperature that is not above 0; an attrs validator."""
    if not isinstance(value, LearnableTemperature) and not 0 < value < math.inf:
        raise ValueError(
            f"`{attribute.name}` divides the similarities and must be a number > 0, such as 0.05, "
            "or a table such as { initial = 1.0 } to learn it"
        )


def fixed_temperature(_: Any, attribute: attrs.Attribute[Any], value: float) -> None:
    """Refuse a temperature that is not above 0; an attrs validator."""
    if not 0 < value < math.inf:
        raise ValueError(
            f"`{attribute.name}` divides the similarities and must be a number > 0, such as 0.05"
        )
