"""Text descriptions of figures for screen readers: the numbers of lines and points."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_FEW = 8
"""Largest number of points of a line that are all described; of longer lines, only the ends are."""


def describe(figure: Figure) -> str:
    """Return a description of a figure: its axes, and the numbers of each named line and point."""
    sentences = []
    for axes in figure.axes:
        sentences.append(axes.get_title(loc="left"))
        sentences.append(
            " over ".join(filter(None, [axes.get_ylabel(), axes.get_xlabel()]))
        )
        # Default names of matplotlib begin with an underscore.
        named = [
            line for line in axes.lines if not str(line.get_label()).startswith("_")
        ]
        sentences += [_describe_line(axes, line) for line in named]
    return ". ".join(filter(None, sentences))


def _describe_line(axes: Axes, line: Line2D) -> str:
    import numpy as np

    name = str(line.get_label())
    if line.get_transform() != axes.transData:
        # A horizontal or vertical line across the whole plot.
        return name
    points = np.asarray(line.get_xydata(), float)
    if len(points) <= _FEW:
        return f"{name}: {', '.join(_place(axes, *point) for point in points)}"
    return f"{name}: from {_place(axes, *points[0])} to {_place(axes, *points[-1])}"


def _place(axes: Axes, x: float, y: float) -> str:
    across = axes.xaxis.get_major_formatter().format_data_short(x).strip()
    above = axes.yaxis.get_major_formatter().format_data_short(y).strip()
    return f"{above} at {across}"
