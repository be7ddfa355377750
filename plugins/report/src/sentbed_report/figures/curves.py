"""Curves over optimiser steps: removal of non-finite points, smoothing, thinning, and drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sentbed_report.figures.axis_formats import step_axis
from sentbed_report.figures.cell_styles import line_style
from sentbed_report.figures.colours import colour
from sentbed_report.figures.labels import label_text, legend_above
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.points import draw_points
from sentbed_report.formatting import number

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Points: TypeAlias = NDArray[np.float64]
    """Array `(points, 2)` with x and y of each point."""

BUCKETS = 500
"""Number of buckets into which a long curve is cut. Only the extremes of each bucket are drawn, so that spikes
remain."""

MOST_MARKED = 60
"""Maximum number of points of a curve with markers; a curve with more is drawn without markers."""


def curves_plot(
    title: str,
    captions: str | Sequence[str],
    axis: str,
    curves: Mapping[str, Points],
    thick: str | None = None,
    best: tuple[float, float] | None = None,
) -> Plot:
    """Draw curves over optimiser steps; `axis` is the label of the vertical axis.

    The curve with the name `thick` has a thick line. The point `best` has a ring.
    """

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for index, (curve, points) in enumerate(curves.items()):
            width = 2.4 if curve == thick else 1.4
            draw_curve(axes, points, index, curve, width=width)

        if best is not None:
            axes.axvline(
                best[0],
                color=colour("muted"),
                linewidth=0.8,
                linestyle=(0, (3, 3)),
            )
            draw_points(axes, *best, colour("page"), "best", ringed=True)
            axes.annotate(
                number(best[1]),
                best,
                xytext=(0, 8),
                textcoords="offset points",
                ha="center",
            )

        axes.set_ylabel(label_text(axis))
        axes.margins(y=0.12)
        step_axis(axes)
        if len(curves) > 1:
            legend_above(figure, 2)

    return Plot(title, captions, 270 + 17 * math.ceil(len(curves) / 2), paint)


def finite_points(x: Sequence[float], y: Sequence[float]) -> Points:
    """Return an array `(points, 2)` of the points that are finite; the longer of `x` and `y` is truncated."""
    import numpy as np

    points = np.array([*zip(x, y, strict=False)], float).reshape(-1, 2)
    finite: Points = points[np.isfinite(points).all(axis=1)]
    return finite


def smoothed(points: Points, reach: int) -> Points:
    """Return points whose y is the centred moving average over up to `reach` neighbours on each side."""
    import numpy as np

    totals = np.concatenate([[0.0], np.cumsum(points[:, 1])])
    places = np.arange(len(points))
    # Near the ends, the window shrinks on both sides, so that it stays centred.
    near = np.minimum(reach, np.minimum(places, places[::-1]))
    sums = totals[places + near + 1] - totals[places - near]
    return np.column_stack([points[:, 0], sums / (2 * near + 1)])


def thinned(points: Points) -> Points:
    """Return a curve with at most `2 * BUCKETS` points.

    A longer curve is cut into `BUCKETS` buckets. Of each bucket, the minimum and the maximum of y are kept.
    """
    import numpy as np
    import pandas

    if len(points) <= 2 * BUCKETS:
        return points
    cuts = np.arange(1, BUCKETS) * len(points) // BUCKETS
    buckets = np.searchsorted(cuts, np.arange(len(points)), side="right")
    values = pandas.Series(points[:, 1]).groupby(buckets)
    kept: NDArray[np.int64] = np.union1d(values.idxmin(), values.idxmax())
    return points[kept]


def draw_curve(
    axes: Axes,
    points: Points,
    index: int,
    label: str = "",
    width: float = 1.6,
) -> None:
    """Draw curve number `index`, with markers if it has few points; `label` is its name in the legend."""
    style = line_style(index)
    if len(points) > MOST_MARKED:
        style["marker"] = ""
    axes.plot(
        *thinned(points).T,
        **style,
        linewidth=width,
        markersize=4,
        label=label or None,
    )
