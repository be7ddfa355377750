"""Figures of a run's encoders in planes of two scores: before and after training, or during training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import START, Score, Watched

from sentbed_report.figures.colours import colour, series_colour
from sentbed_report.figures.curves import MOST_MARKED
from sentbed_report.figures.labels import (
    label_text,
    legend_above,
    task_and_metric,
)
from sentbed_report.figures.plot import Plot
from sentbed_report.score_planes import PlaneScore, ScorePlane, base_name, score_planes

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ARROWS = 12
"""Maximum number of arrows per line."""


def encoder_planes(scores: Sequence[Score]) -> list[ScorePlane]:
    """Return the planes of a run's scores, with step 0 before training and step 1 after training."""
    placed = []
    for score in scores:
        step = 0 if score.encoder.endswith(START) else 1
        placed.append(
            PlaneScore(attrs.evolve(score, encoder=base_name(score.encoder)), step=step)
        )
    return score_planes(placed)


def watched_planes(watched: Sequence[Watched]) -> list[ScorePlane]:
    """Return the planes of a stage's watched scores: those of its `watch` evaluations, made during training."""
    return score_planes(watched_scores(watched))


def watched_scores(
    watched: Sequence[Watched],
    stage: str = "",
    cell: str = "",
    prompt: str = "",
    seed: int = 0,
) -> Iterator[PlaneScore]:
    """Yield every watched score of a stage at every step."""
    # The number tells apart two evaluations that watch one encoder in the same way.
    for number, watch in enumerate(watched):
        for step, values in zip(watch.steps, watch.values, strict=True):
            for score, value in zip(watch.scores, values, strict=True):
                at_step = attrs.evolve(score, value=value, encoder=watch.encoder)
                yield PlaneScore(at_step, stage, cell, prompt, seed, step, number)


def encoder_plot(plane: ScorePlane) -> Plot:
    """Draw the points of each encoder in a plane, with an arrow from before to after training."""
    caption = plane.better
    if not plane.points["step"].all():
        caption += " Hollow: before training."
    return Plot(
        plane.title, caption.strip(), 300, lambda figure: _draw_paths(figure, plane)
    )


def trajectory_plot(plane: ScorePlane) -> Plot:
    """Draw one line per encoder in a plane, with arrows in the direction of training."""
    steps = plane.points["step"]
    caption = (
        f"From step {steps.min():,} (hollow) to step {steps.max():,}, arrows in the direction of training. "
        f"{plane.better}"
    )
    return Plot(
        plane.title, caption.strip(), 320, lambda figure: _draw_paths(figure, plane)
    )


def label_plane(axes: Axes, plane: ScorePlane) -> None:
    """Label the axes of a plane with the names of its two scores."""
    axes.set(
        xlabel=label_text(task_and_metric(plane.task, plane.x)),
        ylabel=label_text(task_and_metric(plane.task, plane.y)),
    )


def _draw_paths(figure: Figure, plane: ScorePlane) -> None:
    axes = figure.subplots()
    axes.margins(0.1)
    label_plane(axes, plane)
    for index, (encoder, line) in enumerate(
        plane.points.groupby("encoder", sort=False)
    ):
        _draw_path(axes, line.sort_values("step"), str(encoder), series_colour(index))
    legend_above(figure, 3)


def _draw_path(
    axes: Axes,
    line: pandas.DataFrame,
    name: str,
    tone: str,
) -> None:
    marker = "o" if len(line) <= MOST_MARKED else ""
    axes.plot(
        line["x"],
        line["y"],
        color=tone,
        linewidth=1.2,
        marker=marker,
        markersize=4,
        label=name,
    )

    points = [*line[["x", "y"]].itertuples(index=False, name=None)]
    # The first point is hollow, unless the only one is after training.
    if len(line) > 1 or line["step"].iloc[0] == 0:
        axes.plot(
            *points[0],
            "o",
            color=colour("page"),
            markeredgecolor=tone,
            markersize=8,
        )

    moves = [(before, after) for before, after in pairwise(points) if before != after]
    every = max(1, math.ceil(len(moves) / _ARROWS))
    arrow = {"arrowstyle": "->", "color": tone, "linewidth": 1.2}
    # Every n-th segment has an arrow, counted from the last segment, which thus always has one.
    for before, after in moves[::-1][::every]:
        axes.annotate("", after, xytext=before, arrowprops=arrow)
