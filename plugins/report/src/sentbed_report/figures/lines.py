"""Figure of lines: scores over a numeric axis of a study, or over the steps of a training."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from sentbed_report.figures.plot import Plot, colours, legend_above, short_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 12
"""Maximum number of lines; more would not be readable."""

MOST_DETAILED = 6
"""Maximum number of lines with markers and error bars; those of more lines would cover each other."""

MOST_POINTS = 1000
"""Maximum number of points of a line. Of a longer line, the extremes are drawn, so that spikes remain."""

_MOST_MARKED = 60
"""Maximum number of points of a line with markers."""

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
    names = _best_lines(points)
    number_of_lines = points["name"].nunique()
    if len(names) < number_of_lines:
        caption += f" The highest {len(names)} of {number_of_lines:,} lines."
    entries = len(names) + len(references or {})

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for name in names:
            line = points[points["name"] == name].sort_values("x", kind="stable")
            _draw_line(axes, name, line, has_details=len(names) <= MOST_DETAILED)
        for name, value in (references or {}).items():
            axes.axhline(value, color=colours()["fg"], linestyle=":", label=name)

        axes.set(xlabel=axes_labels[0], ylabel=axes_labels[1])
        axes.margins(y=0.12)
        if ticks:
            _label_ticks(axes, ticks)
        legend_above(figure)

    return Plot(title, caption.strip(), 270 + 9 * entries, paint)


def _best_lines(points: pandas.DataFrame) -> list[str]:
    """Return the names of the lines to draw, in their order: those that reach highest."""
    highest = points.groupby("name", sort=False)["y"].max()
    best = set(highest.nlargest(MOST_LINES).index)
    return [name for name in highest.index if name in best]


def _draw_line(
    axes: Axes,
    name: str,
    line: pandas.DataFrame,
    *,
    has_details: bool,
) -> None:
    marker = "o" if has_details else ""
    if len(line) > _MOST_MARKED:
        marker = ""
        # Long curves are noisy: their mean over a 25th of the points is drawn over all points.
        smooth = line.rolling(len(line) // 25, on="x", center=True, min_periods=1)
        raw = _thinned(line)
        axes.plot(raw["x"], raw["y"], color=colours()["line"], linewidth=0.7)
        line = _thinned(line.assign(y=smooth["y"].mean()))

    (drawn,) = axes.plot(
        line["x"],
        line["y"],
        marker=marker,
        markersize=4,
        label=name or None,
    )
    if has_details and "error" in line and line["error"].any():
        axes.errorbar(
            line["x"],
            line["y"],
            line["error"],
            fmt="none",
            ecolor=drawn.get_color(),
        )


def _thinned(line: pandas.DataFrame) -> pandas.DataFrame:
    """Return the smallest and the largest point of each of `MOST_POINTS` / 2 parts of a line."""
    import numpy as np

    if len(line) <= MOST_POINTS:
        return line
    parts = np.arange(len(line)) * (MOST_POINTS // 2) // len(line)
    values = line.reset_index(drop=True)["y"].groupby(parts)
    return line.iloc[np.union1d(values.idxmin(), values.idxmax())]


def _label_ticks(axes: Axes, ticks: Mapping[str, float]) -> None:
    """Label the numbers on the horizontal axis, which is logarithmic if they span powers."""
    from matplotlib.ticker import NullLocator

    if spans_powers(list(ticks.values())):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if len(ticks) <= _MOST_TICKS:
        axes.set_xticks(list(ticks.values()), list(map(short_name, ticks)))


def spans_powers(numbers: Sequence[float]) -> bool:
    """Whether numbers are better shown on a logarithmic scale.

    All of them must be positive. Also, the largest must be at least 20 times the smallest, or each of three or
    more numbers must be about the same multiple, at least 1.9, of the number before it.
    """
    ordered = sorted(set(numbers))
    if len(ordered) < 2 or ordered[0] <= 0:
        return False
    if ordered[-1] / ordered[0] >= 20:
        return True

    ratios = [larger / smaller for smaller, larger in pairwise(ordered)]
    return len(ratios) > 1 and min(ratios) >= 1.9 and max(ratios) <= min(ratios) * 1.1
