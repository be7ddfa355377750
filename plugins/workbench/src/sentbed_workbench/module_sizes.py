"""Shapes of parameters, and sizes of modules, which `sentbed plan` counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import attrs

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Name of a parameter -> its shape."""


@attrs.frozen(eq=False)
class LossSize:
    """Size of a loss, and the cost of its passes for a batch."""

    shapes: Shapes = attrs.field(factory=dict)
    """Shapes of its parameters, by name."""
    state_bytes: int = 0
    """Size in bytes of the state that it keeps between steps."""
    flops: float = 0.0
    """Floating-point operations of its forward and backward pass."""
    peak_bytes: int = 0
    """Most bytes that the passes take at a time, with the vectors that it gets."""


def count(shapes: Shapes) -> int:
    """Return the total number of elements of tensors of these shapes."""
    return sum(map(math.prod, shapes.values()))
