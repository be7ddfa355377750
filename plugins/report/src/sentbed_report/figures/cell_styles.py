"""Colours and markers of a study's cells in figures, and the choice of cells to draw."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from sentbed_report.figures.colours import SERIES, colour, series_colour
from sentbed_report.figures.labels import legend_above, short_name
from sentbed_report.figures.points import draw_points
from sentbed_report.formatting import first_names
from sentbed_report.study.study_data import AxisInfo, StudyData

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 12
"""Largest number of lines, or of named points, in a readable figure."""

_MARKERS = ("o", "s", "^", "D", "v", "P")


def line_style(index: int) -> dict[str, Any]:
    """Return colour, marker and dashes of line number `index`, for `plot`; all colours are used first."""
    turn = index // SERIES
    return {
        "color": series_colour(index),
        "marker": _MARKERS[turn % len(_MARKERS)],
        "linestyle": (0, (4, 2)) if turn % 2 else "solid",
    }


@attrs.frozen
class CellMarkers:
    """Markers of cells: the colour stands for the label of one axis of the study, the shape for another's."""

    data: StudyData

    @property
    def axes(self) -> Sequence[AxisInfo]:
        """The first two axes that have several labels, and no more labels than there are colours or shapes."""
        return [axis for axis in self.data.axes if 1 < len(axis.labels) <= SERIES][:2]

    @property
    def entries(self) -> int:
        """Number of entries of the legend."""
        return sum(len(axis.labels) for axis in self.axes)

    def draw(self, axes: Axes, points: pandas.DataFrame) -> None:
        """Draw a point for each row of `points`.

        The columns are `cell`, `name`, `x`, `y`, and `degenerate`, for which the point is hollow. Optional are
        `alpha` (opacity), `tone` (colour) and `text` (a label beside the point).
        """
        places = {}
        for cell in self.data.cells:
            of_cell = [axis.labels.index(cell.labels[axis.name]) for axis in self.axes]
            places[cell.name] = (*of_cell, 0, 0)
        middle = (points["x"].min() + points["x"].max()) / 2
        for point in points.to_dict("records"):
            first, second, *_ = places[point["cell"]]
            label = "" if point["degenerate"] else point["name"]
            draw_points(
                axes,
                point["x"],
                point["y"],
                point.get("tone") or series_colour(first),
                label,
                marker=_MARKERS[second],
                hollow=bool(point["degenerate"]),
                ringed=point["cell"] == self.data.baseline,
                alpha=point.get("alpha", 1),
            )
            if point.get("text"):
                side, alignment = (-1, "right") if point["x"] > middle else (1, "left")
                axes.annotate(
                    short_name(point["text"]),
                    (point["x"], point["y"]),
                    xytext=(7 * side, 3),
                    textcoords="offset points",
                    ha=alignment,
                ).set_in_layout(False)

    def draw_legend(self, figure: Figure, columns: int) -> None:
        """Draw a legend with the labels above a figure, if the study has such axes."""
        from matplotlib.lines import Line2D

        handles = []
        for number, axis in enumerate(self.axes):
            for place, label in enumerate(axis.labels):
                tone = series_colour(place) if number == 0 else colour("muted")
                marker = _MARKERS[number * place]
                name = short_name(f"{axis.name} {label}")
                handles.append(
                    Line2D([], [], linestyle="", marker=marker, color=tone, label=name)
                )
        if handles:
            legend_above(figure, columns, handles)

    def sentences(self, points: pandas.DataFrame) -> str:
        """Return sentences that explain rings and hollow points; empty if there are none."""
        sentences = []
        if self.data.baseline in set(points["cell"]):
            sentences.append("Ringed: the baseline.")
        hollow = points.loc[points["degenerate"] > 0, "name"]
        if len(hollow):
            sentences.append(f"Hollow, degenerate: {first_names([*hollow])}.")
        return " ".join(sentences)


def best_cells(
    worth: Mapping[str, float],
    baseline: str | None,
    limit: int = MOST_LINES,
) -> tuple[str, ...]:
    """Return up to `limit` cells: the baseline, and those with the highest `worth`, in its order."""

    def rank(cell: str) -> tuple[bool, float]:
        value = worth[cell]
        return cell != baseline, -value if math.isfinite(value) else math.inf

    kept = set(sorted(worth, key=rank)[:limit])
    return tuple(cell for cell in worth if cell in kept)


def sentence_on_choice(drawn: int, cells: int, what: str) -> str:
    """Return a sentence on the number of cells that `best_cells` left out; empty if it left out none."""
    if drawn >= cells:
        return ""
    return f"Of {cells:,} cells {drawn} are drawn: the baseline and those with the highest {what}."


def sentence_on_missing(data: StudyData, cells: Collection[str], what: str) -> str:
    """Return a sentence with the names of a study's cells that are not among `cells`; empty if all are."""
    missing = [cell.name for cell in data.cells if cell.name not in cells]
    if not missing:
        return ""
    return f"Without {what}: {first_names(missing)}."
