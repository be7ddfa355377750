"""The validations of a stage, with the one whose weights were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed.protocols import StageCurve

from sentbed_report.figures.axis_formats import step_axis
from sentbed_report.figures.colours import colour
from sentbed_report.figures.curves import draw_curve, finite_points
from sentbed_report.figures.labels import label_text, name_point, primary_score
from sentbed_report.figures.plot import Plot
from sentbed_report.formatting import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def validation_plot(stage: StageCurve, name: str) -> Plot | None:
    """Draw the validation scores with the step whose weights were kept; None without a finite score."""
    steps = [step for step, _ in stage.validations]
    points = finite_points(steps, [score for _, score in stage.validations])
    if not len(points):
        return None
    # One point, or none.
    best = points[points[:, 0] == stage.best_step][:1]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        draw_curve(axes, points, colour("c2"), stage.metric)
        axes.set_ylabel(label_text(primary_score(stage.metric)))
        axes.margins(y=0.16)
        for step, score in best:
            axes.axvline(step, color=colour("muted"), linewidth=0.8, linestyle=(0, (3, 3)))
            axes.plot(
                step,
                score,
                "o",
                color=colour("page"),
                markeredgecolor=colour("fg"),
                markersize=8,
                markeredgewidth=1.6,
                label="best",
            )
            in_second_half = step > points[[0, -1], 0].mean()
            name_point(axes, number(score), (step, score), (-9 if in_second_half else 9, 7))
        step_axis(axes)

    caption = ""
    for step, score in best:
        caption = f"Best: {number(score)} at step {step:,.0f}, whose weights were kept."
    return Plot(name, "Validation", caption, 280, paint)
