"""Figure of dots with intervals, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sentbed_report.dots import Dot, limits
from sentbed_report.figures.plot import MUTED, STRONG, Plot, short_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 40
"""Maximum number of rows; of more, only the first are drawn."""


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
        axes.axvline(line, color=MUTED, linewidth=1, linestyle="--")
        first, last = limits(drawn, line)
        for place, dot in enumerate(drawn):
            colour = MUTED
            if dot.strong:
                colour = STRONG
            interval = [max(dot.low, first), min(dot.high, last)]
            axes.plot(interval, [place, place], color=colour)
            axes.plot(dot.value, place, "o", color=colour, label=dot.name)
        axes.set_yticks(range(len(drawn)), [short_name(dot.name) for dot in drawn])
        axes.set_ylim(len(drawn) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(label)

    return Plot(title, caption.strip(), paint, ratio=0.2 + 0.06 * len(drawn))
