"""Short, single-line texts in figures: names, labels of axes, legends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

LEGEND_LENGTH = 28
"""Maximum number of characters of a name in a legend, or beside a point or a row."""


def label_text(text: str, longest: int = 40) -> str:
    """Return a text as one line of at most `longest` characters, without characters that XML forbids."""
    unprintable = {letter for letter in text if not letter.isprintable()}
    for letter in unprintable:
        text = text.replace(letter, " ")
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    return line[: longest - 1] + "…"


def short_name(name: str) -> str:
    """Return a name that fits a legend, a point or a row: of a long name, its beginning and its end."""
    line = label_text(name, len(name))
    if len(line) <= LEGEND_LENGTH:
        return line
    # Names of cells often begin alike and differ in their last labels.
    half = LEGEND_LENGTH // 2
    return f"{line[:half]}…{line[1 - half :]}"


def task_and_metric(task: str, metric: str) -> str:
    """Return the axis label of a score, such as `STSB (spearman)`; without a metric, the task."""
    if not metric:
        return task
    return f"{task} ({metric})"


def primary_score(evaluator: str) -> str:
    """Return the axis label of an evaluator's primary score, whose task and metric the evaluator chooses."""
    return task_and_metric(evaluator or "evaluator", "primary score")


def legend_above(
    figure: Figure,
    columns: int,
    handles: Sequence[Artist] = (),
) -> None:
    """Draw a legend above a figure, with as many columns as fit into its width, but at most `columns`.

    The legend shows `handles`. By default, these are the named lines of all axes, each name once; there is then
    no legend for a single name.
    """
    if not handles:
        lines: dict[str, Artist] = {}
        for axes in figure.axes:
            named, names = axes.get_legend_handles_labels()
            lines.update(zip(names, named, strict=True))
        handles = [*lines.values()]
        if len(handles) < 2:
            return

    # The lines keep their whole names, by which they are told apart and described.
    labels = [short_name(str(handle.get_label())) for handle in handles]
    for number in range(columns, 0, -1):
        legend = figure.legend(
            handles=handles,
            labels=labels,
            loc="outside upper left",
            frameon=False,
            ncols=number,
        )
        if number == 1 or legend.get_window_extent().width < 0.95 * figure.bbox.width:
            return
        legend.remove()
