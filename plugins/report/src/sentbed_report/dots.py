"""Numbers with intervals that figures and tables draw."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs


@attrs.frozen
class Dot:
    """A number with its interval, which is infinite on a side without a limit; NaN without interval."""

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan
    strong: bool = True
    """Whether the dot has the colour of lines rather than that of the text around."""


def limits(dots: Sequence[Dot], line: float) -> tuple[float, float]:
    """Return the limits between which dots are drawn.

    They hold all numbers, and the intervals up to the range of the numbers on each side, since the interval of
    two seeds can be a hundred times as wide.
    """
    values = [line]
    ends = [line]
    for dot in dots:
        values.append(dot.value)
        ends.append(dot.value)
        ends += filter(math.isfinite, (dot.low, dot.high))

    least = min(values)
    greatest = max(values)
    room = greatest - least
    if room == 0:
        room = math.inf

    first = max(min(ends), least - room)
    last = min(max(ends), greatest + room)
    return first, last
