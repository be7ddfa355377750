"""Figures of a training stage: loss, metrics of the loss, validation scores, watched scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sentbed.protocols import StageCurve, Watched

from sentbed_report.figures.axis_formats import step_axis
from sentbed_report.figures.colours import colour
from sentbed_report.figures.curves import (
    BUCKETS,
    curves_plot,
    draw_curve,
    finite_points,
    smoothed,
    thinned,
)
from sentbed_report.figures.labels import primary_score, task_and_metric
from sentbed_report.figures.plot import Plot
from sentbed_report.formatting import count, number, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sentbed_report.figures.curves import Points

_Subject: TypeAlias = tuple[str, str]
"""Title of a plot, and label of its vertical axis."""


def loss_plot(stage: StageCurve) -> Plot | None:
    """Draw the training loss, raw and smoothed, above the learning rate; None without a finite loss."""
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
        draw_curve(upper, smoothed(losses, reach), 0, "loss", width=1.8)
        upper.set_ylabel("loss")
        upper.locator_params(axis="y", nbins=6)
        step_axis(lower)
        figure.align_ylabels()

    captions = []
    if reach:
        captions.append(
            f"Thin: as logged; thick: mean over {2 * reach + 1:,} logged steps."
        )
    if len(losses) > 2 * BUCKETS:
        captions.append(
            f"{len(losses):,} values drawn as the extremes of {BUCKETS} buckets."
        )
    if len(rates):
        captions.append("Below: the learning rate.")
    missing = len(stage.losses) - len(losses)
    if missing:
        captions.append(
            f"{count(missing, 'logged loss', 'logged losses')} not finite, not drawn."
        )
    return Plot("Training loss", captions, 280, paint)


def _draw_rates(axes: Axes, rates: Points) -> None:
    draw_curve(axes, rates, 1)
    axes.set_ylabel("lr")
    highest = float(rates[:, 1].max())
    axes.set_ylim(0, highest * 1.15 or 1)
    axes.set_yticks([0, highest], ["0", short(highest)])


def metrics_plots(stage: StageCurve) -> list[Plot]:
    """Draw each metric that the loss reports, if it has a finite number."""
    plots = []
    for metric, values in stage.metrics.items():
        points = finite_points(stage.steps, values)
        if len(points):
            plots.append(
                curves_plot(
                    f"Metric of the loss: {metric}", "", metric, {metric: points}
                )
            )
    return plots


def validation_plot(stage: StageCurve) -> Plot | None:
    """Draw the validation scores, with a ring at the step whose weights were kept; None without any."""
    steps, scores = [], []
    for step, score in stage.validations:
        steps.append(step)
        scores.append(score)
    points = finite_points(steps, scores)
    if not len(points):
        return None
    caption, best = "", None
    for step, score in points[points[:, 0] == stage.best_step]:
        best = (step, score)
        caption = f"Best: {number(score)} at step {step:,.0f}, whose weights were kept."
    axis = primary_score(stage.metric)
    return curves_plot("Validation", caption, axis, {stage.metric: points}, best=best)


def score_plots(watched: Iterable[Watched]) -> list[Plot]:
    """Draw the watched scores that no plane shows, with one line per encoder."""
    panels: dict[tuple[_Subject, int], dict[str, Points]] = {}
    lines: Counter[tuple[_Subject, str]] = Counter()
    for watch in watched:
        for subject, values in _followed(watch):
            points = finite_points(watch.steps, values)
            if len(points):
                # If an encoder is watched twice, each of its lines needs another plot.
                number_of_line = lines[subject, watch.encoder]
                panels.setdefault((subject, number_of_line), {})[watch.encoder] = points
                lines[subject, watch.encoder] += 1
    plots = []
    for (subject, _), curves in panels.items():
        title, axis = subject
        plots.append(curves_plot(title, "Watched: chooses nothing.", axis, curves))
    return plots


def _followed(watch: Watched) -> Iterator[tuple[_Subject, Sequence[float]]]:
    """Yield the curves to draw: the primary score, or, if a plane shows that, the scores not in the plane."""
    if not any(score.axis in ("x", "y") for score in watch.scores):
        tasks = ", ".join(dict.fromkeys(score.task for score in watch.scores))
        yield (
            (f"{watch.evaluator}: {tasks}", primary_score(watch.evaluator)),
            watch.primary,
        )
        return
    for place, score in enumerate(watch.scores):
        if not score.axis:
            title = f"{watch.evaluator} {score.metric}: {score.task}"
            values = [of_step[place] for of_step in watch.values]
            yield (title, task_and_metric(score.task, score.metric)), values
