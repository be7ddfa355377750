"""Encoders of a run in a plane of two scores, before and after training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed.protocols import START

from sentbed_report.figures.colours import colour, series_colour
from sentbed_report.figures.labels import name_point
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.points import plane_axes
from sentbed_report.score_planes import GeometryPanel, base_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def geometry_plot(panel: GeometryPanel, name: str) -> Plot:
    """Draw a plane with one point per encoder and arrows from before to after training."""
    points = {point.encoder: (point.x, point.y) for point in panel.points}
    bases = list(dict.fromkeys(map(base_name, points)))

    def paint(figure: Figure) -> None:
        axes = plane_axes(figure, panel.plane, panel.task, list(points.values()), margin=0.3)
        middle = sum(axes.get_xlim()) / 2
        for encoder, point in points.items():
            base = base_name(encoder)
            tone = series_colour(bases.index(base))
            if encoder.endswith(START):
                partner = points.get(base)
                fill = colour("page")
            else:
                partner = points.get(base + START)
                fill = tone
                if partner is not None:
                    _draw_arrow(axes, partner, point, tone)
            axes.plot(*point, "o", color=fill, markeredgecolor=tone, markersize=8, label=encoder)
            # The name stands on the side away from the arrow.
            above = partner is None or partner[1] < point[1]
            name_point(axes, encoder, point, (-4 if point[0] > middle else 4, 8 if above else -8))

    title = ", ".join(part for part in (panel.protocol, panel.task, panel.evaluator) if part)
    caption = panel.plane.better
    if any(encoder.endswith(START) for encoder in points):
        caption += " Hollow: before training."
    return Plot(name, title, caption.strip(), 300, paint)


def _draw_arrow(axes: Axes, before: tuple[float, float], after: tuple[float, float], tone: str) -> None:
    arrow = {"arrowstyle": "->", "color": tone, "linewidth": 1.2, "shrinkA": 7, "shrinkB": 7}
    axes.annotate("", after, xytext=before, arrowprops=arrow)
