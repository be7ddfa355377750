"""Scatter plots of evaluations, such as gold scores against cosines, one for each task and encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sentbed.protocols import START, Scatter

from sentbed_report.figures.colours import colour
from sentbed_report.figures.curves import finite_points
from sentbed_report.figures.labels import label_text
from sentbed_report.figures.plot import Plot
from sentbed_report.formatting import count
from sentbed_report.score_planes import encoder_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sentbed_report.figures.curves import Points

POINTS_PER_SCATTER = 1500
"""Maximum number of points that a plot shows; more points could not be distinguished."""

_POINTS_PER_PAGE = 30_000
"""Maximum number of points in all plots of a page together, unless there are hundreds of plots: each shows up
to 50 points in any case. A page with dozens of tasks stays below about a megabyte."""

_LAYERS = 10
"""Number of SVG paths per plot. Overlapping points look darker only if they are in different paths."""


def scatter_plots(scatters: Sequence[tuple[str, Scatter]]) -> list[Plot]:
    """Draw one plot per task and encoder; an encoder's plots from before and after training are neighbours.

    `scatters` are pairs of an encoder's name and a scatter. All plots of a task have the same limits.
    """
    import numpy as np

    limit = _POINTS_PER_PAGE // max(1, len(scatters))
    limit = min(POINTS_PER_SCATTER, max(50, limit))
    tasks: dict[tuple[str, str, str], list[tuple[str, Points]]] = {}
    for encoder, scatter in scatters:
        points = finite_points(scatter.x, scatter.y)
        if len(points):
            labels = (scatter.title, scatter.x_label, scatter.y_label)
            tasks.setdefault(labels, []).append((encoder, points))

    plots: list[Plot] = []
    for labels, of_encoders in tasks.items():
        order = encoder_order(encoder for encoder, _ in of_encoders)
        of_encoders.sort(key=lambda entry: order.index(entry[0]))

        all_points = np.concatenate([points for _, points in of_encoders])
        corners = np.array([all_points.min(axis=0), all_points.max(axis=0)])
        for encoder, points in of_encoders:
            plots.append(_scatter(labels, encoder, points, corners, limit))
    return plots


def _scatter(
    labels: tuple[str, str, str],
    encoder: str,
    points: Points,
    corners: Points,
    limit: int,
) -> Plot:
    """Draw one encoder's points in a task; `corners` `(2, 2)` are the lower and upper limits of x and y.

    If there are more than `limit` points, only as many are drawn.
    """
    import numpy as np

    title, x_label, y_label = labels
    caption = count(len(points), "point")
    shown = points
    if len(points) > limit:
        shown = points[np.arange(limit) * len(points) // limit]
        caption = f"{limit:,} of {caption}, evenly chosen"

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.update_datalim(corners)
        axes.autoscale_view()
        axes.set(xlabel=label_text(x_label), ylabel=label_text(y_label))
        tone = "muted" if encoder.endswith(START) else "c0"
        for layer in range(min(_LAYERS, len(shown))):
            _draw_dots(axes, shown[layer::_LAYERS], colour(tone))

    return Plot(f"{title}: {encoder}", caption, 225, paint, width=260)


def _draw_dots(
    axes: Axes,
    points: Points,
    tone: str,
) -> None:
    """Draw points as one path of zero-length lines, which needs far less markup than a marker per point."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    path = Path(points.repeat(2, axis=0), [Path.MOVETO, Path.LINETO] * len(points))
    # Simplification of the path would remove the zero-length lines.
    path.should_simplify = False
    dots = PathPatch(
        path,
        fill=False,
        edgecolor=tone,
        linewidth=3.2,
        alpha=0.4,
        capstyle="round",
    )
    # `add_patch` would also compute the limits of the axes, which are set already.
    axes.add_artist(dots)
