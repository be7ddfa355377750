"""Metrics of a stage's loss, such as its temperature, over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed.protocols import StageCurve

from sentbed_report.figures.axis_formats import step_axis
from sentbed_report.figures.colours import series_colour
from sentbed_report.figures.curves import draw_curve, finite_points
from sentbed_report.figures.labels import label_text
from sentbed_report.figures.plot import Plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def metrics_plot(stage: StageCurve, name: str) -> Plot | None:
    """Draw each of the loss's own metrics below each other; None without a finite number."""
    curves = {}
    for metric, values in stage.metrics.items():
        points = finite_points(stage.steps, values)
        if len(points):
            curves[metric] = points
    if not curves:
        return None

    def paint(figure: Figure) -> None:
        rows = figure.subplots(len(curves), 1, sharex=True, squeeze=False)[:, 0]
        for index, (axes, metric) in enumerate(zip(rows, curves, strict=True)):
            draw_curve(axes, curves[metric], series_colour(index + 3), metric, width=1.4)
            axes.set_title(label_text(metric), loc="left", fontsize="medium")
            axes.locator_params(axis="y", nbins=3)
            axes.margins(y=0.1)
        step_axis(rows[-1])

    return Plot(name, "Metrics of the loss", "", 60 + 100 * len(curves), paint)
