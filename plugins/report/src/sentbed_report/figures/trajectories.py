"""Trajectories: two watched scores against each other over training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import attrs
from sentbed.protocols import Watched

from sentbed_report.figures.colours import colour, series_colour
from sentbed_report.figures.curves import MOST_MARKED
from sentbed_report.figures.labels import line_legend, short_name
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.points import plane_axes
from sentbed_report.score_planes import Plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ARROWS = 12
"""Maximum number of arrows per line."""

_PlaneKey: TypeAlias = tuple[str, str, str]
"""Protocol id, task and evaluator."""

_Key = TypeVar("_Key")
_Line = TypeVar("_Line")


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
    task: str
    lines: tuple[Trajectory, ...]

    @property
    def rows(self) -> tuple[tuple[int, tuple[Place | None, ...]], ...]:
        """Each step with the position of every line, or None if it was not evaluated."""
        places_by_step = [{place.step: place for place in line.places} for line in self.lines]
        steps = sorted({place.step for line in self.lines for place in line.places})
        return tuple((step, tuple(places.get(step) for places in places_by_step)) for step in steps)


def trajectory_panels(watched: Iterable[Watched]) -> tuple[TrajectoryPanel, ...]:
    """Pair the scores of each look on two axes; one panel a protocol id, task and evaluator."""
    lines: list[tuple[_PlaneKey, str, Trajectory]] = []
    planes: dict[_PlaneKey, Plane] = {}
    for watch in watched:
        for key, (x, y) in _planes(watch).items():
            places = (
                Place(step, values[x], values[y])
                for step, values in zip(watch.steps, watch.values, strict=True)
            )
            finite = tuple(place for place in places if math.isfinite(place.x) and math.isfinite(place.y))
            planes.setdefault(key, Plane.of(watch.scores[x], watch.scores[y]))
            if finite:
                lines.append((key, watch.encoder, Trajectory(watch.encoder, finite)))
    panels = []
    for key, shared in share_panels(lines):
        title = ", ".join(part for part in key if part)
        panels.append(TrajectoryPanel(planes[key], title, key[1], tuple(shared.values())))
    return tuple(panels)


def _planes(watch: Watched) -> Mapping[_PlaneKey, tuple[int, int]]:
    """Return the planes of which both scores are watched, with the places of x and y among the scores."""
    places: dict[_PlaneKey, dict[str, int]] = {}
    for place, score in enumerate(watch.scores):
        if score.axis in ("x", "y"):
            key = (score.protocol_id, score.task, watch.evaluator)
            places.setdefault(key, {})[score.axis] = place
    return {key: (axes["x"], axes["y"]) for key, axes in places.items() if len(axes) == 2}


def share_panels(lines: Iterable[tuple[_Key, str, _Line]]) -> list[tuple[_Key, dict[str, _Line]]]:
    """Group lines with the same key into panels, with each encoder at most once per panel."""
    panels: list[tuple[_Key, dict[str, _Line]]] = []
    for key, encoder, line in lines:
        for panel_key, panel in panels:
            if panel_key == key and encoder not in panel:
                panel[encoder] = line
                break
        else:
            panels.append((key, {encoder: line}))
    return panels


def trajectory_plot(panel: TrajectoryPanel, name: str) -> Plot:
    """Draw a plane, one line an encoder with arrows in the direction of training."""
    places = [place for line in panel.lines for place in line.places]

    def paint(figure: Figure) -> None:
        points = [(place.x, place.y) for place in places]
        axes = plane_axes(figure, panel.plane, panel.task, points, margin=0.1)
        for index, line in enumerate(panel.lines):
            _draw_trajectory(axes, line, series_colour(index))
        line_legend(figure, axes, 3)

    steps = [place.step for place in places]
    caption = (
        f"From step {min(steps):,} (hollow) to step {max(steps):,}, arrows in the direction of training. "
        f"{panel.plane.better}"
    )
    return Plot(name, panel.title, caption.strip(), 320, paint)


def _draw_trajectory(axes: Axes, line: Trajectory, tone: str) -> None:
    points = [(place.x, place.y) for place in line.places]
    axes.plot(
        *zip(*points, strict=True),
        color=tone,
        linewidth=1.2,
        marker="o" if len(points) <= MOST_MARKED else "",
        markersize=3,
        label=short_name(line.encoder),
    )
    axes.plot(*points[0], "o", color=colour("page"), markeredgecolor=tone, markersize=8)
    moves = [(before, after) for before, after in pairwise(points) if before != after]
    every = max(1, math.ceil(len(moves) / _ARROWS))
    arrow = {"arrowstyle": "->", "color": tone, "linewidth": 1.2}
    # From the end, so that the last one is there.
    for before, after in moves[::-1][::every]:
        axes.annotate("", after, xytext=before, arrowprops=arrow)
