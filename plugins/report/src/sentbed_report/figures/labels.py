"""Texts in figures: they are one line, and short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

LEGEND_LENGTH = 28
"""Characters of a name in a legend, beside a point or beside a row."""


def label_text(text: str, longest: int = 40) -> str:
    """Return text that XML can hold, in one line, shortened with an ellipsis."""
    unprintable = {letter for letter in text if not letter.isprintable()}
    for letter in unprintable:
        text = text.replace(letter, " ")
    line = " ".join(text.split())
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


def legend_above(figure: Figure, columns: int, handles: Sequence[Artist] = ()) -> None:
    """Name lines or points above a figure, in `columns` columns, or as many as fit into its width.

    By default these are the named lines of its plots, if there are several.
    """
    if not handles:
        lines: dict[str, Artist] = {}
        for axes in figure.axes:
            named, names = axes.get_legend_handles_labels()
            lines.update(zip(names, named, strict=True))
        handles = [*lines.values()]
        if len(handles) < 2:
            return
    for number in range(columns, 0, -1):
        legend = figure.legend(
            handles=handles, loc="outside upper left", frameon=False, ncols=number
        )
        if number == 1 or legend.get_window_extent().width < 0.95 * figure.bbox.width:
            return
        legend.remove()
