"""Texts in figures: they are one line, and short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGEND_LENGTH = 28
"""Characters of a name in a legend, beside a point or beside a row."""


def label_text(text: str, longest: int = 40) -> str:
    """Return text that XML can hold, in one line, shortened with an ellipsis."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    line = " ".join(printable.split())
    if len(line) <= longest:
        return line
    return line[: longest - 1] + "…"


def short_name(name: str) -> str:
    """Return a name for a legend, a point or a row."""
    return label_text(name, LEGEND_LENGTH)


def task_and_metric(task: str, metric: str) -> str:
    """Return the label of an axis of scores, such as `STSB (spearman)`; without a metric, the task."""
    if not metric:
        return task
    return f"{task} ({metric})"


def primary_score(evaluator: str) -> str:
    """Return the label of an axis of an evaluator's primary score, whose task and metric it decides."""
    return task_and_metric(evaluator or "evaluator", "primary score")


def legend_above(figure: Figure, columns: int, handles: Sequence[Artist]) -> None:
    """Name lines or points above a figure, in `columns` columns, or as many as fit into its width."""
    for number in range(columns, 0, -1):
        legend = figure.legend(
            handles=handles,
            loc="outside upper left",
            frameon=False,
            ncols=number,
        )
        if number == 1 or legend.get_window_extent().width < 0.95 * figure.bbox.width:
            return
        legend.remove()


def line_legend(figure: Figure, axes: Axes, columns: int) -> None:
    """Name the lines of a plot above it, if there are several."""
    handles, _ = axes.get_legend_handles_labels()
    if len(handles) > 1:
        legend_above(figure, columns, handles)


def name_point(
    axes: Axes,
    name: str,
    point: tuple[float, float],
    offset: tuple[float, float],
) -> None:
    """Write a name beside a point: to the left, the right, below or above, as its `offset` in points says."""
    x, y = offset
    horizontal = "center" if x == 0 else "right" if x < 0 else "left"
    vertical = "center" if y == 0 else "top" if y < 0 else "bottom"
    note = axes.annotate(
        short_name(name),
        point,
        xytext=offset,
        textcoords="offset points",
        ha=horizontal,
        va=vertical,
    )
    note.set_in_layout(False)
