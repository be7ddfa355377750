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
"""Maximum number of lines, or of points with names, in a figure; more would not be readable."""

_MARKERS = ("o", "s", "^", "D", "v", "P")


def line_style(index: int) -> dict[str, Any]:
    """Return colour, marker and dashes of line number `index`, as keywords of `Axes.plot`.

    The first `SERIES` lines differ in colour; later lines repeat the colours with other markers and dashes.
    """
    repetition = index // SERIES
    style: dict[str, Any] = {
        "color": series_colour(index),
        "marker": _MARKERS[repetition % len(_MARKERS)],
        "linestyle": "solid",
    }
    if repetition % 2:
        style["linestyle"] = (0, (4, 2))
    return style


@attrs.frozen
class CellMarkers:
    """Markers of a study's cells: their colour shows the label on one axis, their shape the label on another."""

    data: StudyData

    @property
    def axes(self) -> Sequence[AxisInfo]:
        """The axes that colour and shape show: the first two that have 2 to `SERIES` labels."""
        return [axis for axis in self.data.axes if 1 < len(axis.labels) <= SERIES][:2]

    @property
    def entries(self) -> int:
        """Number of entries in the legend."""
        return sum(len(axis.labels) for axis in self.axes)

    def draw(self, axes: Axes, points: pandas.DataFrame) -> None:
        """Draw a point for each row of `points`.

        The columns are `cell`, `name`, `x`, `y`, and `degenerate`: a degenerate point is hollow. Optional
        columns are `alpha` (opacity), `tone` (colour) and `text` (a label beside the point).
        """
        styles = {}
        for cell in self.data.cells:
            places = [axis.labels.index(cell.labels[axis.name]) for axis in self.axes]
            # Without two axes, all cells have the first colour or the first shape.
            styles[cell.name] = (*places, 0, 0)

        middle = (points["x"].min() + points["x"].max()) / 2
        for point in points.to_dict("records"):
            colour_index, shape_index, *_ = styles[point["cell"]]
            label = "" if point["degenerate"] else point["name"]
            draw_points(
                axes,
                point["x"],
                point["y"],
                point.get("tone") or series_colour(colour_index),
                label,
                marker=_MARKERS[shape_index],
                hollow=bool(point["degenerate"]),
                ringed=point["cell"] == self.data.baseline,
                alpha=point.get("alpha", 1),
            )
            if point.get("text"):
                # Beside the point, on the side where the plot has more room.
                side, alignment = 1, "left"
                if point["x"] > middle:
                    side, alignment = -1, "right"
                axes.annotate(
                    short_name(point["text"]),
                    (point["x"], point["y"]),
                    xytext=(7 * side, 3),
                    textcoords="offset points",
                    ha=alignment,
                ).set_in_layout(False)

    def draw_legend(self, figure: Figure, columns: int) -> None:
        """Draw a legend above a figure, with the labels that colours and shapes show, if there are any."""
        from matplotlib.lines import Line2D

        handles = []
        for number, axis in enumerate(self.axes):
            for place, label in enumerate(axis.labels):
                tone, marker = series_colour(place), _MARKERS[0]
                if number == 1:
                    tone, marker = colour("muted"), _MARKERS[place]
                handles.append(
                    Line2D(
                        [],
                        [],
                        linestyle="",
                        marker=marker,
                        color=tone,
                        label=f"{axis.name} {label}",
                    )
                )
        if handles:
            legend_above(figure, columns, handles)

    def sentences(self, points: pandas.DataFrame) -> str:
        """Return sentences that explain rings and hollow points; empty if there are no such points."""
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
    """Return up to `limit` cells: the baseline, and the cells with the highest worth, in the order of `worth`."""

    def rank(cell: str) -> tuple[bool, float]:
        value = worth[cell]
        return cell != baseline, -value if math.isfinite(value) else math.inf

    kept = set(sorted(worth, key=rank)[:limit])
    return tuple(cell for cell in worth if cell in kept)


def sentence_on_choice(
    drawn: int,
    cells: int,
) -> str:
    """Return a sentence on the number of cells that are drawn; it is empty if all cells are drawn."""
    if drawn >= cells:
        return ""
    return f"Of {cells:,} cells {drawn} are drawn: the baseline and those with the highest validation score."


def sentence_on_missing(
    data: StudyData,
    cells: Collection[str],
    what: str,
) -> str:
    """Return a sentence with the names of the study's cells that are not in `cells`; empty if all are in it.

    `what` says what those cells lack, such as "scores".
    """
    missing = [cell.name for cell in data.cells if cell.name not in cells]
    if not missing:
        return ""
    return f"Without {what}: {first_names(missing)}."
