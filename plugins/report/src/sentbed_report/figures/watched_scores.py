"""Watched scores of a stage over the steps, those of trajectories left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.protocols import Watched

from sentbed_report.figures.axis_formats import step_axis
from sentbed_report.figures.colours import series_colour
from sentbed_report.figures.curves import draw_curve, finite_points
from sentbed_report.figures.labels import label_text, line_legend, primary_score, task_and_metric
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.trajectories import share_panels, trajectory_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sentbed_report.figures.curves import Points

    _Line: TypeAlias = tuple["_Subject", str, Points]


@attrs.frozen
class _Subject:
    """What a plot is of."""

    title: str
    axis: str
    """Label of the vertical axis."""


def score_plots(watched: Iterable[Watched], name: str) -> tuple[Plot, ...]:
    """Draw each watched evaluation that no trajectory shows, one line an encoder."""
    panels = share_panels(line for watch in watched for line in _lines(watch))
    return tuple(
        _score_plot(subject, curves, f"{name}-{index}") for index, (subject, curves) in enumerate(panels)
    )


def _lines(watch: Watched) -> Iterator[_Line]:
    """Yield what has a finite score: what it is of, encoder and points."""
    for subject, values in _followed(watch):
        points = finite_points(watch.steps, values)
        if len(points):
            yield subject, watch.encoder, points


def _followed(watch: Watched) -> Iterator[tuple[_Subject, Sequence[float]]]:
    """Yield the primary score, or where trajectories show that, every other score."""
    if not trajectory_panels([watch]):
        tasks = ", ".join(dict.fromkeys(score.task for score in watch.scores))
        yield _Subject(f"{watch.evaluator}: {tasks}", primary_score(watch.evaluator)), watch.primary
        return
    for place, score in enumerate(watch.scores):
        if not score.axis:
            title = f"{watch.evaluator} {score.metric}: {score.task}"
            values = [look[place] for look in watch.values]
            yield _Subject(title, task_and_metric(score.task, score.metric)), values


def _score_plot(subject: _Subject, curves: Mapping[str, Points], name: str) -> Plot:
    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for index, (encoder, points) in enumerate(curves.items()):
            draw_curve(axes, points, series_colour(index), encoder)
        axes.set_ylabel(label_text(subject.axis))
        axes.margins(y=0.16)
        step_axis(axes)
        line_legend(figure, axes, 3)

    return Plot(name, subject.title, "Watched: chooses nothing.", 280, paint)
