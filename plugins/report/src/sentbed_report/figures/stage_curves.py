"""Figures of a training stage: loss, metrics of the loss, validation scores, watched scores.

Watched scores are those of the stage's `watch` evaluations, which are made during training and choose no
weights.
"""

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
    """Draw the training loss, raw and smoothed, above the learning rate; None if no loss is finite."""
    losses = finite_points(stage.steps, stage.losses)
    rates = finite_points(stage.steps, stage.learning_rates)
    if not len(losses):
        return None

    # The mean is over a 25th of the logged steps.
    reach = len(losses) // 50

    def paint(figure: Figure) -> None:
        if len(rates):
            upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
            _draw_rates(lower, rates)
        else:
            upper = lower = figure.subplots()
        if reach:
            upper.plot(
                *thinned(losses).T,
                color=colour("c0"),
                linewidth=0.7,
                alpha=0.4,
            )
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
    """Draw one plot for each metric that the loss reports, if any of its values is finite."""
    plots = []
    for metric, values in stage.metrics.items():
        points = finite_points(stage.steps, values)
        if len(points):
            title = f"Metric of the loss: {metric}"
            plots.append(curves_plot(title, "", metric, {metric: points}))
    return plots


def validation_plot(stage: StageCurve) -> Plot | None:
    """Draw the validation scores, with a ring at the step whose weights were kept; None if no score is finite."""
    steps = [step for step, _ in stage.validations]
    scores = [score for _, score in stage.validations]
    points = finite_points(steps, scores)
    if not len(points):
        return None

    caption, best = "", None
    for step, score in points[points[:, 0] == stage.best_step]:
        best = (step, score)
        caption = f"The weights of step {step:,.0f}, with {number(score)}, were kept."
    axis = primary_score(stage.metric)
    return curves_plot("Validation", caption, axis, {stage.metric: points}, best=best)


def score_plots(watched: Iterable[Watched]) -> list[Plot]:
    """Draw the watched scores over the training steps, with one line per encoder.

    Scores that are a coordinate of a scatter plot, such as alignment and uniformity, are drawn there instead.
    """
    panels: dict[tuple[_Subject, int], dict[str, Points]] = {}
    lines: Counter[tuple[_Subject, str]] = Counter()

    for watch in watched:
        for subject, values in _curves_outside_planes(watch):
            points = finite_points(watch.steps, values)
            if len(points):
                # An encoder that is watched twice has two lines with one name, in different plots.
                repetition = lines[subject, watch.encoder]
                panels.setdefault((subject, repetition), {})[watch.encoder] = points
                lines[subject, watch.encoder] += 1

    plots = []
    for (subject, _), curves in panels.items():
        title, axis = subject
        plots.append(
            curves_plot(
                title, "Watched only: no weights are chosen by it.", axis, curves
            )
        )
    return plots


def _curves_outside_planes(
    watch: Watched,
) -> Iterator[tuple[_Subject, Sequence[float]]]:
    """Yield the curves of a watched evaluation, each with its subject.

    If no score is a coordinate of a scatter plot, there is one curve, of the evaluator's primary score.
    Otherwise, each score that is no coordinate has a curve.
    """
    if not any(score.axis in ("x", "y") for score in watch.scores):
        tasks = ", ".join(dict.fromkeys(score.task for score in watch.scores))
        subject = (f"{watch.evaluator}: {tasks}", primary_score(watch.evaluator))
        yield subject, watch.primary
        return

    for place, score in enumerate(watch.scores):
        if not score.axis:
            title = f"{watch.evaluator} {score.metric}: {score.task}"
            values = [of_step[place] for of_step in watch.values]
            yield (title, task_and_metric(score.task, score.metric)), values
