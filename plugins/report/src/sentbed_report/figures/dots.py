"""Figure of dots with intervals, one row each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from sentbed_report.figures.plot import Plot, colours, short_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 40
"""Maximum number of rows; of more, only the first are drawn."""


@attrs.frozen
class Dot:
    """A number with its interval, which is infinite on a side without a limit; NaN without interval."""

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan
    strong: bool = True
    """Whether the dot has the colour of lines rather than that of the text around."""


def dots_plot(
    title: str,
    label: str,
    dots: Sequence[Dot],
    line: float,
    caption: str = "",
) -> Plot:
    """Draw each dot in a row of its own, the first at the top, and a vertical line at the number `line`."""
    drawn = dots[:MOST_ROWS]
    if len(drawn) < len(dots):
        caption += f" The first {len(drawn)} of {len(dots):,} rows."

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.axvline(line, color=colours()["muted"], linewidth=1, linestyle="--")
        first, last = limits(drawn, line)
        for place, dot in enumerate(drawn):
            colour = colours()["c0" if dot.strong else "muted"]
            ends = [max(dot.low, first), min(dot.high, last)]
            axes.plot(ends, [place, place], color=colour, linewidth=1.6)
            axes.plot(dot.value, place, "o", color=colour, label=dot.name)
        axes.set_yticks(range(len(drawn)), [short_name(dot.name) for dot in drawn])
        axes.set_ylim(len(drawn) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(label)

    return Plot(title, caption.strip(), 80 + 24 * len(drawn), paint)


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
