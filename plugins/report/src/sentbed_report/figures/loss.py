"""The training loss of a stage, over the learning rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed.protocols import StageCurve

from sentbed_report.figures.axis_formats import step_axis
from sentbed_report.figures.colours import colour
from sentbed_report.figures.curves import BUCKETS, draw_curve, finite_points, smoothed, thinned
from sentbed_report.figures.plot import Plot
from sentbed_report.formatting import count, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sentbed_report.figures.curves import Points


def loss_plot(stage: StageCurve, name: str) -> Plot | None:
    """Draw the training loss, raw and smoothed, over the learning rate; None without a finite loss."""
    losses = finite_points(stage.steps, stage.losses)
    rates = finite_points(stage.steps, stage.learning_rates)
    if not len(losses):
        return None
    reach = len(losses) // 50

    def paint(figure: Figure) -> None:
        if len(rates):
            upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
            _draw_rates(lower, rates)
        else:
            upper = lower = figure.subplots()
        if reach:
            upper.plot(*thinned(losses).T, color=colour("c0"), linewidth=0.7, alpha=0.4)
        draw_curve(upper, smoothed(losses, reach), colour("c0"), "loss", width=1.8)
        upper.set_ylabel("loss")
        upper.locator_params(axis="y", nbins=6)
        step_axis(lower)
        figure.align_ylabels()

    captions = []
    if reach:
        captions.append(f"Thin: as logged; thick: mean over {2 * reach + 1:,} logged steps.")
    if len(losses) > 2 * BUCKETS:
        captions.append(f"{len(losses):,} values drawn as the extremes of {BUCKETS} buckets.")
    if len(rates):
        captions.append("Below: the learning rate.")
    missing = len(stage.losses) - len(losses)
    if missing:
        captions.append(f"{count(missing, 'logged loss', 'logged losses')} not finite, not drawn.")
    return Plot(name, "Training loss", " ".join(captions), 280, paint)


def _draw_rates(axes: Axes, rates: Points) -> None:
    draw_curve(axes, rates, colour("c1"), width=1.4)
    axes.set_ylabel("lr")
    highest = float(rates[:, 1].max())
    if highest:
        axes.set_ylim(0, highest * 1.15)
        axes.set_yticks([0, highest], ["0", short(highest)])
    else:
        axes.set_ylim(0, 1)
        axes.set_yticks([0], ["0"])
