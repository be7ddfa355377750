"""Figure of points in a plane of two numbers, with a line and an arrow for each encoder along its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sentbed.protocols import Scatter

from sentbed_report.figures.lines import spans_powers
from sentbed_report.figures.plot import Plot, colours, legend_above, short_name
from sentbed_report.formatting import count

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NAMES = 12
"""Maximum number of encoders whose names stand in the legend or beside the points."""


MOST_SHAPES = 60
"""Maximum number of encoders that have lines and colours of their own."""


def scatter_plot(
    title: str,
    axes_labels: tuple[str, str],
    points: pandas.DataFrame,
    caption: str = "",
    shade: str = "",
) -> Plot:
    """Draw points; an encoder with several steps is a line, hollow at its first step, with an arrow at its last.

    Args:
        title: Title of the figure.
        axes_labels: Labels of the horizontal and of the vertical axis.
        points: Columns `name` (of the encoder), `step`, `x` and `y`; with `shade`, also `shade`.
        caption: Text below the figure.
        shade: Name of the number that gives points their colours; without it, each encoder has a colour.
    """
    names = points["name"].unique()
    has_lines = len(points) > len(names)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.margins(0.12)
        axes.set(xlabel=axes_labels[0], ylabel=axes_labels[1])
        if len(names) > MOST_SHAPES:
            # Hundreds of points are smaller as an image than as shapes.
            axes.scatter(points["x"], points["y"], s=16, alpha=0.5, rasterized=True)
        else:
            for name, line in points.groupby("name", sort=False):
                _draw_steps(axes, str(name), line.sort_values("step"))
        if shade:
            drawn = axes.scatter(
                points["x"],
                points["y"],
                c=points["shade"],
                zorder=3,
                rasterized=len(names) > MOST_SHAPES,
            )
            figure.colorbar(drawn, label=shade).outline.set_visible(False)
        if spans_powers(list(points["x"])):
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:,g}")

        if len(names) > MOST_NAMES:
            return
        if has_lines:
            legend_above(figure)
        else:
            _name_points(axes, points)

    if has_lines:
        caption += " Hollow: the first step; arrow: the last."
    return Plot(title, caption.strip(), 320, paint)


def _draw_steps(
    axes: Axes,
    name: str,
    line: pandas.DataFrame,
) -> None:
    size = 8
    if len(line) > 1:
        size = 4
    (drawn,) = axes.plot(
        line["x"],
        line["y"],
        marker="o",
        markersize=size,
        linewidth=1.2,
        label=name,
    )
    if len(line) == 1:
        return
    axes.plot(
        line["x"].iloc[0],
        line["y"].iloc[0],
        "o",
        color=colours()["page"],
        markeredgecolor=drawn.get_color(),
        markersize=8,
    )
    before, after = line[["x", "y"]].to_numpy()[-2:]
    axes.annotate(
        "",
        after,
        xytext=before,
        arrowprops={"arrowstyle": "->", "color": drawn.get_color()},
    )


def _name_points(axes: Axes, points: pandas.DataFrame) -> None:
    """Write the name of each point beside it, on the side where the plot has more room."""
    middle = (points["x"].min() + points["x"].max()) / 2
    for point in points.itertuples():
        offset, alignment = (7, 3), "left"
        if point.x > middle:
            offset, alignment = (-7, 3), "right"
        axes.annotate(
            short_name(point.name),
            (point.x, point.y),
            xytext=offset,
            textcoords="offset points",
            ha=alignment,
        ).set_in_layout(False)


def similarity_plots(scatters: Sequence[tuple[str, Scatter]]) -> list[Plot]:
    """Draw the scatters of evaluations, such as gold scores against cosines, one plot per task and encoder."""
    return [_similarity_plot(encoder, scatter) for encoder, scatter in scatters]


def _similarity_plot(encoder: str, scatter: Scatter) -> Plot:
    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set(xlabel=scatter.x_label, ylabel=scatter.y_label)
        # Thousands of points are smaller as an image than as shapes.
        axes.scatter(
            scatter.x,
            scatter.y,
            s=9,
            linewidths=0,
            alpha=0.4,
            color=colours()["c0"],
            rasterized=True,
        )

    points = count(len(scatter.x), "point")
    return Plot(f"{scatter.title}: {encoder}", points, 225, paint, width=260)
