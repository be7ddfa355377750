"""Plots of training curves: watched evaluations and loss metrics over a stage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import StageCurve, Watched

from sentbed_report.curve_smoothing import finite, padded_range, thinned
from sentbed_report.formatting import number, short
from sentbed_report.matplotlib_svg import Drawing, colour, label_text, legend_above
from sentbed_report.run_plots import MARKED, WIDTH, Plot, step_axis
from sentbed_report.score_planes import Plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = 6
_ARROWS = 12
"""Maximum number of arrows per line."""


@attrs.frozen
class Place:
    """Position of an encoder in a plane at one evaluation."""

    step: int
    x: float
    y: float


@attrs.frozen
class Trajectory:
    """Path of one encoder through the plane; points with non-finite scores are dropped."""

    encoder: str
    places: tuple[Place, ...]


@attrs.frozen
class TrajectoryPanel:
    """Trajectories under one protocol id and on one task: only these can share axes."""

    plane: Plane
    title: str
    lines: tuple[Trajectory, ...]

    @property
    def rows(self) -> tuple[tuple[int, tuple[Place | None, ...]], ...]:
        """Each step with the position of every line, or None if it was not evaluated."""
        steps = sorted({place.step for line in self.lines for place in line.places})
        found = [{place.step: place for place in line.places} for line in self.lines]
        return tuple((step, tuple(places.get(step) for places in found)) for step in steps)


def trajectory_panels(watched: Iterable[Watched]) -> tuple[TrajectoryPanel, ...]:
    """Pair the scores of each look on two axes; one panel a protocol id, task and evaluator."""
    lines: list[tuple[tuple[str, str, str], Trajectory]] = []
    planes: dict[tuple[str, str, str], Plane] = {}
    for one in watched:
        columns: dict[tuple[str, str, str], dict[str, int]] = {}
        for index, score in enumerate(one.scores):
            if score.axis in ("x", "y"):
                where = (score.protocol_id, score.task, one.evaluator)
                columns.setdefault(where, {})[score.axis] = index
        for where, of in columns.items():
            if len(of) < 2:
                continue
            planes.setdefault(where, Plane.of(one.scores[of["x"]], one.scores[of["y"]]))
            looks = zip(one.steps, one.values, strict=True)
            places = (Place(step, v[of["x"]], v[of["y"]]) for step, v in looks)
            seen = (p for p in places if math.isfinite(p.x) and math.isfinite(p.y))
            if kept := tuple(seen):
                lines.append((where, Trajectory(one.encoder, kept)))
    return tuple(
        TrajectoryPanel(planes[where], ", ".join(part for part in where if part), tuple(panel))
        for where, panel in _shared((where, line.encoder, line) for where, line in lines)
    )


def trajectory_plot(panel: TrajectoryPanel, name: str) -> Plot:
    """Draw a plane, one line an encoder with arrows in the direction of training."""
    places = [place for line in panel.lines for place in line.places]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set_xlim(*padded_range((place.x for place in places), margin=0.1))
        axes.set_ylim(*padded_range((place.y for place in places), margin=0.1))
        axes.set_xlabel(label_text(panel.plane.x))
        axes.set_ylabel(label_text(panel.plane.y))
        for index, line in enumerate(panel.lines):
            _trajectory(axes, line, colour(f"c{index % _COLOURS}"))
        _legend(axes, panel.lines)

    told = "; ".join(
        f"{line.encoder}: from {_told(line.places[0])} to {_told(line.places[-1])}" for line in panel.lines
    )
    label = label_text(f"{panel.plane.over} in training, {panel.title}. {told}", 400)
    caption = (
        f"From step {min(p.step for p in places):,} (hollow) to step {max(p.step for p in places):,}, "
        f"arrows in the direction of training. {panel.plane.better}"
    ).strip()
    return Plot(Drawing(name, label, WIDTH, 320, paint), panel.title, caption)


def score_plots(watched: Iterable[Watched], name: str) -> tuple[Plot, ...]:
    """Draw each watched evaluation that no trajectory shows, one line an encoder."""
    lines = (
        (key, one.encoder, (one.encoder, points))
        for one in watched
        for key, values in _followed(one)
        if (points := finite(zip(one.steps, values, strict=True)))
    )
    return tuple(
        _score_plot(what, tasks, dict(panel), f"{name}-{index}")
        for index, ((what, *tasks), panel) in enumerate(_shared(lines))
    )


def _followed(one: Watched) -> Iterator[tuple[tuple[str, ...], Sequence[float]]]:
    """Yield the primary score, or where trajectories show that, every other score."""
    if not trajectory_panels([one]):
        yield (one.evaluator, *dict.fromkeys(score.task for score in one.scores)), one.primary
        return
    for index, score in enumerate(one.scores):
        if not score.axis:
            yield (f"{one.evaluator} {score.metric}", score.task), [look[index] for look in one.values]


def metrics_plot(stage: StageCurve, name: str) -> Plot | None:
    """Draw each of the loss's own metrics, such as its temperature, below each other."""
    curves = {
        metric: points
        for metric, values in stage.metrics.items()
        if (points := finite(zip(stage.steps, values, strict=False)))
    }
    if not curves:
        return None

    def paint(figure: Figure) -> None:
        rows = figure.subplots(len(curves), 1, sharex=True, squeeze=False)[:, 0]
        for index, (axes, (metric, points)) in enumerate(zip(rows, curves.items(), strict=True)):
            marker = "o" if len(points) <= MARKED else ""
            tone = colour(f"c{(index + 3) % _COLOURS}")
            axes.plot(*thinned(points), color=tone, linewidth=1.4, marker=marker, markersize=3)
            axes.set_title(label_text(metric), loc="left", fontsize="medium")
            axes.locator_params(axis="y", nbins=3)
            axes.margins(y=0.1)
        step_axis(rows[-1])

    ends = "; ".join(f"{m}: from {short(p[0][1])} to {short(p[-1][1])}" for m, p in curves.items())
    label = label_text(f"Metrics of the loss in stage {stage.name}. {ends}", 300)
    return Plot(Drawing(name, label, WIDTH, 60 + 100 * len(curves), paint), "Metrics of the loss", "")


_Key = TypeVar("_Key", bound=tuple[str, ...])
_Item = TypeVar("_Item")


def _shared(lines: Iterable[tuple[_Key, str, _Item]]) -> list[tuple[_Key, list[_Item]]]:
    """Group lines with the same key into panels, with each encoder at most once per panel."""
    panels: list[tuple[_Key, dict[str, _Item]]] = []
    for key, encoder, line in lines:
        free = (panel for of, panel in panels if of == key and encoder not in panel)
        panel = next(free, None)
        if panel is None:
            panel = {}
            panels.append((key, panel))
        panel[encoder] = line
    return [(key, list(panel.values())) for key, panel in panels]


def _trajectory(axes: Axes, line: Trajectory, tone: str) -> None:
    points = [(place.x, place.y) for place in line.places]
    marker = "o" if len(points) <= MARKED else ""
    axes.plot(
        *zip(*points, strict=True),
        color=tone,
        linewidth=1.2,
        marker=marker,
        markersize=3,
        label=label_text(line.encoder, 28),
    )
    moves = [(a, b) for a, b in pairwise(points) if a != b]
    every = max(1, math.ceil(len(moves) / _ARROWS))
    # From the end, so that the last one is there.
    for before, after in moves[::-1][::every]:
        axes.annotate(
            "", after, xytext=before, arrowprops={"arrowstyle": "->", "color": tone, "linewidth": 1.2}
        )
    axes.plot(*points[0], "o", color=colour("page"), markeredgecolor=tone, markersize=8)


def _score_plot(
    what: str, tasks: Sequence[str], curves: Mapping[str, Sequence[tuple[float, float]]], name: str
) -> Plot:
    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for index, (encoder, points) in enumerate(curves.items()):
            axes.plot(
                *thinned(points),
                color=colour(f"c{index % _COLOURS}"),
                linewidth=1.6,
                marker="o" if len(points) <= MARKED else "",
                markersize=3.5,
                label=label_text(encoder, 28),
            )
        axes.set_ylabel(label_text(what))
        axes.margins(y=0.16)
        step_axis(axes)
        _legend(axes, curves)

    title = f"{what}: {', '.join(tasks)}"
    decimals = score_digits(value for points in curves.values() for _, value in points)
    ends = "; ".join(
        f"{e}: from {number(p[0][1], decimals)} to {number(p[-1][1], decimals)}" for e, p in curves.items()
    )
    label = label_text(f"{title} over the steps. {ends}", 300)
    return Plot(Drawing(name, label, WIDTH, 280, paint), title, "Watched: chooses nothing.")


def _legend(axes: Axes, lines: Iterable[object]) -> None:
    if len(list(lines)) > 1:
        legend_above(axes, 3)


def _told(place: Place) -> str:
    return f"{number(place.y, 3)}, {number(place.x, 3)} at step {place.step:,}"
