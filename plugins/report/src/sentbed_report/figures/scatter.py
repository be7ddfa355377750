"""Figure of points in a plane of two numbers, with a line and an arrow for each encoder along its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed_report.figures.lines import spans_powers
from sentbed_report.figures.plot import Plot, legend_above, short_name

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NAMES = 12
"""Maximum number of encoders whose names stand in the legend or beside the points."""


def scatter_plot(
    title: str,
    axes_labels: tuple[str, str],
    points: pandas.DataFrame,
    shade: str = "",
) -> Plot:
    """Draw points; an encoder with several steps is a line, hollow at its first step, with an arrow at its last.

    Args:
        title: Title of the figure.
        axes_labels: Labels of the horizontal and of the vertical axis.
        points: Columns `name` (of the encoder), `step`, `x` and `y`, and `shade` if a number gives colours.
        shade: Name of the number in the column `shade`, which gives points their colours.
    """
    names = points["name"].nunique()
    has_lines = len(points) > names

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.margins(0.12)
        axes.set(xlabel=axes_labels[0], ylabel=axes_labels[1])
        for name, line in points.groupby("name", sort=False):
            _draw_steps(axes, str(name), line.sort_values("step"))
        if "shade" in points:
            drawn = axes.scatter(points["x"], points["y"], c=points["shade"], zorder=3)
            figure.colorbar(drawn, label=shade)
        if spans_powers(points["x"]):
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:,g}")

        if names > MOST_NAMES:
            return
        if has_lines:
            legend_above(figure)
            return
        for point in points.itertuples():
            axes.annotate(
                short_name(point.name),
                (point.x, point.y),
                xytext=(0, 5),
                textcoords="offset points",
                ha="center",
            )

    caption = ""
    if has_lines:
        caption = "Hollow: the first step; arrow: the last."
    return Plot(title, caption, paint)


def _draw_steps(axes: Axes, name: str, line: pandas.DataFrame) -> None:
    (drawn,) = axes.plot(line["x"], line["y"], marker="o", markersize=3, label=name)
    if len(line) == 1:
        return
    colour = drawn.get_color()
    first, before, after = line[["x", "y"]].to_numpy()[[0, -2, -1]]
    axes.plot(*first, marker="o", markerfacecolor="white", color=colour)
    arrow = {"arrowstyle": "->", "color": colour}
    axes.annotate("", after, xytext=before, arrowprops=arrow)
