"""Figure of lines: scores over a numeric axis of a study, or over the steps of a training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed_report.figures.plot import MUTED, Plot, legend_above, short_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 12
"""Maximum number of lines; more would not be readable."""

_MOST_MARKED = 60
"""Maximum number of points of a line with markers; a longer line is also smoothed."""

_MOST_TICKS = 8
"""Maximum number of labels along an axis; more labels would overlap."""


def line_plot(
    title: str,
    axes_labels: tuple[str, str],
    points: pandas.DataFrame,
    caption: str = "",
    references: Mapping[str, float] | None = None,
    ticks: Mapping[str, float] | None = None,
) -> Plot:
    """Draw lines through points, with error bars, and references as dashed horizontal lines.

    Args:
        title: Title of the figure.
        axes_labels: Labels of the horizontal and of the vertical axis.
        points: Columns `name` (of the line), `x`, `y`, and `error` if there are error bars.
        caption: Text below the figure.
        references: Name of a reference -> its value.
        ticks: Label along the horizontal axis -> its number; by default, numbers are the labels.
    """
    highest = points.groupby("name", sort=False)["y"].max()
    best = set(highest.nlargest(MOST_LINES).index)
    if len(best) < len(highest):
        caption += f" The highest {len(best)} of {len(highest):,} lines."

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set(xlabel=axes_labels[0], ylabel=axes_labels[1])
        for name, line in points.groupby("name", sort=False):
            if name in best:
                _draw_line(axes, str(name), line.sort_values("x", kind="stable"))
        for name, value in (references or {}).items():
            axes.axhline(value, color=MUTED, linestyle="--", label=name)
        if ticks:
            _label_ticks(axes, ticks)
        legend_above(figure)

    return Plot(title, caption.strip(), paint)


def _draw_line(axes: Axes, name: str, line: pandas.DataFrame) -> None:
    if len(line) > _MOST_MARKED:
        # Long curves are noisy: their mean over a 25th of the points is drawn over all points.
        axes.plot(line["x"], line["y"], color=MUTED, linewidth=0.5, alpha=0.5)
        smooth = line.rolling(len(line) // 25, on="x", center=True, min_periods=1)
        axes.plot(line["x"], smooth["y"].mean(), label=name or None)
        return
    (drawn,) = axes.plot(
        line["x"],
        line["y"],
        marker="o",
        markersize=3,
        label=name or None,
    )
    if "error" in line and line["error"].any():
        colour = drawn.get_color()
        axes.errorbar(line["x"], line["y"], line["error"], fmt="none", ecolor=colour)


def _label_ticks(axes: Axes, ticks: Mapping[str, float]) -> None:
    """Label the numbers on the horizontal axis, which is logarithmic if they span powers."""
    from matplotlib.ticker import NullLocator

    if spans_powers(ticks.values()):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if len(ticks) <= _MOST_TICKS:
        axes.set_xticks(list(ticks.values()), list(map(short_name, ticks)))


def spans_powers(numbers: Iterable[float]) -> bool:
    """Whether numbers are better shown on a logarithmic scale: positive, and the largest 8 times the smallest."""
    ordered = sorted(numbers)
    return ordered[0] > 0 and ordered[-1] >= 8 * ordered[0]
