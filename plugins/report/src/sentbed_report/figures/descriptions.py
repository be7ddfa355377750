"""Descriptions of figures as text for screen readers: the numbers of lines and points."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_FEW = 8
"""Maximum number of points of a line that are all described; of a longer line, only the first and the last
point are."""


def describe(figure: Figure) -> str:
    """Return a description of a figure: titles and labels of its axes, and the points of each named line."""
    sentences = []
    for axes in figure.axes:
        sentences.append(axes.get_title(loc="left"))
        labels = filter(None, [axes.get_ylabel(), axes.get_xlabel()])
        sentences.append(" over ".join(labels))
        for line in axes.lines:
            # matplotlib gives lines without a name one that begins with an underscore.
            if not str(line.get_label()).startswith("_"):
                sentences.append(_describe_line(axes, line))
    return ". ".join(filter(None, sentences))


def _describe_line(axes: Axes, line: Line2D) -> str:
    import numpy as np

    name = str(line.get_label())
    if line.get_transform() != axes.transData:
        # It is a horizontal or vertical line across the whole plot, without points.
        return name
    points = np.asarray(line.get_xydata(), float)
    if len(points) <= _FEW:
        return f"{name}: {', '.join(_describe_point(axes, *point) for point in points)}"
    first = _describe_point(axes, *points[0])
    last = _describe_point(axes, *points[-1])
    return f"{name}: from {first} to {last}"


def _describe_point(
    axes: Axes,
    x: float,
    y: float,
) -> str:
    """Return a point as text, such as `0.8 at 100`: y, then x."""
    across = axes.xaxis.get_major_formatter().format_data_short(x).strip()
    above = axes.yaxis.get_major_formatter().format_data_short(y).strip()
    return f"{above} at {across}"
