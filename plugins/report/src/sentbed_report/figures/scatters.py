"""Scatters of an evaluation, such as gold scores against cosines: a panel an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from sentbed.protocols import START, Scatter

from sentbed_report.figures.colours import colour
from sentbed_report.figures.curves import finite_points
from sentbed_report.figures.labels import label_text
from sentbed_report.figures.plot import Plot, PlotGroup
from sentbed_report.figures.points import padded_range
from sentbed_report.formatting import count
from sentbed_report.score_planes import encoder_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sentbed_report.figures.curves import Points

POINTS_PER_SCATTER = 1500
"""Maximum points per scatter panel; more could not be distinguished."""

_POINTS_PER_PAGE = 30_000
"""Maximum points per page, which keeps pages with dozens of tasks under about a megabyte."""

_LAYERS = 10
"""Number of paths per scatter: a single path does not darken where its points overlap."""

_Labels: TypeAlias = tuple[str, str, str]
"""Title, and labels of the horizontal and of the vertical axis."""

_Limits: TypeAlias = tuple[tuple[float, float], tuple[float, float]]


def scatter_groups(scatters: Sequence[tuple[str, Scatter]], name: str) -> tuple[PlotGroup, ...]:
    """Draw each task's points, one panel per encoder, before training next to after."""
    limit = _POINTS_PER_PAGE // max(1, len(scatters))
    limit = min(POINTS_PER_SCATTER, max(50, limit))
    groups: dict[_Labels, list[tuple[str, Points]]] = {}
    for encoder, scatter in scatters:
        points = finite_points(scatter.x, scatter.y)
        if len(points):
            labels = (scatter.title, scatter.x_label, scatter.y_label)
            groups.setdefault(labels, []).append((encoder, points))
    return tuple(
        _group(labels, panels, f"{name}-{index}", limit)
        for index, (labels, panels) in enumerate(groups.items())
    )


def _group(labels: _Labels, panels: list[tuple[str, Points]], name: str, limit: int) -> PlotGroup:
    import numpy as np

    order = encoder_order(encoder for encoder, _ in panels)
    panels.sort(key=lambda panel: order.index(panel[0]))
    x, y = np.concatenate([points for _, points in panels]).T
    limits = (padded_range(x), padded_range(y))
    plots = []
    for index, (encoder, points) in enumerate(panels):
        plots.append(_scatter(f"{name}-{index}", labels, encoder, points, limits, limit))
    return PlotGroup(labels[0], tuple(plots))


def _scatter(
    name: str,
    labels: _Labels,
    encoder: str,
    points: Points,
    limits: _Limits,
    limit: int,
) -> Plot:
    import numpy as np

    _, x_label, y_label = labels
    caption = count(len(points), "point")
    shown = points
    if len(points) > limit:
        shown = points[np.arange(limit) * len(points) // limit]
        caption = f"{limit:,} of {caption}, evenly chosen"

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set_xlim(*limits[0])
        axes.set_ylim(*limits[1])
        axes.set_xlabel(label_text(x_label))
        axes.set_ylabel(label_text(y_label))
        tone = "muted" if encoder.endswith(START) else "c0"
        for layer in range(min(_LAYERS, len(shown))):
            _draw_dots(axes, shown[layer::_LAYERS], colour(tone))

    return Plot(name, encoder, caption, 225, paint, width=260)


def _draw_dots(axes: Axes, points: Points, tone: str) -> None:
    """Draw points as a path of lines without length, which is a fraction of the markup of as many markers."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    path = Path(points.repeat(2, axis=0), [Path.MOVETO, Path.LINETO] * len(points))
    # Simplified, it would lose the lines without length.
    path.should_simplify = False
    dots = PathPatch(path, fill=False, edgecolor=tone, linewidth=3.2, alpha=0.4, capstyle="round")
    # As an artist: `add_patch` would compute limits, which are set already.
    axes.add_artist(dots)
