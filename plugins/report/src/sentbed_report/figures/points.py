"""Points of figures: full or hollow, with a ring or without, in planes of two scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sentbed_report.figures.colours import colour
from sentbed_report.figures.labels import label_text, task_and_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sentbed_report.score_planes import Plane


def draw_points(
    axes: Axes,
    x: float | Sequence[float],
    y: float | Sequence[float],
    tone: str,
    label: str = "",
    *,
    marker: str = "o",
    size: float = 8,
    hollow: bool = False,
    ringed: bool = False,
    alpha: float = 1,
) -> None:
    """Draw points of one colour; what is degenerate or before training is hollow, a baseline has a ring.

    `label` is their name for screen readers and legends.
    """
    axes.plot(
        x,
        y,
        marker,
        color=tone,
        fillstyle="none" if hollow else "full",
        markeredgecolor=colour("fg") if ringed else tone,
        markeredgewidth=1.6 if ringed else 0.8,
        markersize=size,
        alpha=alpha,
        label=label or None,
    )


def padded_range(values: Iterable[float], margin: float = 0.05) -> tuple[float, float]:
    """Return minimum and maximum, extended on both sides by `margin` times their distance."""
    numbers = [float(value) for value in values]
    low, high = min(numbers), max(numbers)
    distance = high - low or abs(high) or 1.0
    return low - distance * margin, high + distance * margin


def plane_axes(
    figure: Figure,
    plane: Plane,
    task: str,
    points: Sequence[tuple[float, float]],
    margin: float,
) -> Axes:
    """Return axes for points in a plane of two scores of a task."""
    axes = figure.subplots()
    axes.set_xlim(*padded_range((x for x, _ in points), margin))
    axes.set_ylim(*padded_range((y for _, y in points), margin))
    axes.set_xlabel(label_text(task_and_metric(task, plane.x)))
    axes.set_ylabel(label_text(task_and_metric(task, plane.y)))
    return axes
