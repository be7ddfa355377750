"""Curves: which of their points can be drawn, smoothed, and thinned out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from sentbed_report.figures.labels import short_name

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Points: TypeAlias = NDArray[np.float64]
    """Points `(points, 2)`: x and y of each."""

BUCKETS = 500
"""Number of buckets; longer curves are drawn as the extremes of each bucket, which keeps spikes."""

MOST_MARKED = 60
"""Maximum number of points for which a curve has markers."""


def finite_points(x: Sequence[float], y: Sequence[float]) -> Points:
    """Return the points `(points, 2)` with two finite coordinates; the longer sequence is cut."""
    import numpy as np

    count = min(len(x), len(y))
    points = np.column_stack([np.asarray(x[:count], float), np.asarray(y[:count], float)])
    finite: Points = points[np.isfinite(points).all(axis=1)]
    return finite


def smoothed(points: Points, reach: int) -> Points:
    """Return the centred moving average over up to `reach` neighbours per side."""
    import numpy as np

    totals = np.concatenate([[0.0], np.cumsum(points[:, 1])])
    places = np.arange(len(points))
    # At both ends there are fewer neighbours on one side: as few are taken of the other.
    near = np.minimum(reach, np.minimum(places, places[::-1]))
    sums = totals[places + near + 1] - totals[places - near]
    return np.column_stack([points[:, 0], sums / (2 * near + 1)])


def thinned(points: Points) -> Points:
    """Return the points, reduced to the minimum and maximum of y in each of `BUCKETS` buckets."""
    import numpy as np

    if len(points) <= 2 * BUCKETS:
        return points
    cuts = np.arange(1, BUCKETS) * len(points) // BUCKETS
    kept = set()
    for bucket in np.split(np.arange(len(points)), cuts):
        values = points[bucket, 1]
        kept.add(bucket[values.argmin()])
        kept.add(bucket[values.argmax()])
    return points[sorted(kept)]


def draw_curve(axes: Axes, points: Points, tone: str, label: str = "", width: float = 1.6) -> None:
    """Draw a curve, with its points as dots where they are few; `label` is its name, if it has one."""
    axes.plot(
        *thinned(points).T,
        color=tone,
        linewidth=width,
        marker="o" if len(points) <= MOST_MARKED else "",
        markersize=3.5,
        label=short_name(label) or None,
    )
