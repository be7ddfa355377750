"""Styles of a study's cells in figures, and the choice of cells to draw."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from sentbed_report.figures.colours import SERIES, colour, series_colour
from sentbed_report.figures.labels import legend_above, short_name
from sentbed_report.study.study_data import AxisInfo, CellInfo, StudyData

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LINES = 12
"""Maximum number of lines, or named points, in a readable figure."""

_MOST_NAMES = 12
"""Maximum number of names in a sentence of a caption."""

_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("solid", (0, (4, 2)))


@attrs.frozen
class LineStyle:
    """Style of a line and of its points."""

    colour: str
    marker: str
    dashes: object


def line_style(index: int) -> LineStyle:
    """Return the style of the line with this number: colours first, then markers and dashes."""
    turn = index // SERIES
    return LineStyle(
        series_colour(index),
        _MARKERS[turn % len(_MARKERS)],
        _DASHES[turn % len(_DASHES)],
    )


@attrs.frozen
class CellMarkers:
    """Points of cells: their colour is the label of one axis of the study, their shape that of another."""

    axes: tuple[AxisInfo, ...]
    """No, one or two axes with several labels, but no more than there are colours and shapes."""

    @classmethod
    def of(cls, data: StudyData) -> CellMarkers:
        """Return the markers of a study's cells, by its first axes that can be shown so."""
        axes = [axis for axis in data.axes if 1 < len(axis.labels) <= SERIES]
        return cls(tuple(axes[:2]))

    @property
    def entries(self) -> int:
        """Number of entries of the legend."""
        return sum(len(axis.labels) for axis in self.axes)

    def style(self, cell: CellInfo) -> LineStyle:
        """Return the style of a cell's point."""
        places = [axis.labels.index(cell.labels[axis.name]) for axis in self.axes]
        first, second = (*places, 0, 0)[:2]
        return LineStyle(series_colour(first), _MARKERS[second], _DASHES[0])

    def draw_legend(self, figure: Figure, columns: int) -> None:
        """Name the labels above a figure; nothing without axes."""
        from matplotlib.lines import Line2D

        handles = []
        for number, axis in enumerate(self.axes):
            for place, label in enumerate(axis.labels):
                handles.append(
                    Line2D(
                        [],
                        [],
                        linestyle="",
                        marker=_MARKERS[0] if number == 0 else _MARKERS[place],
                        color=series_colour(place) if number == 0 else colour("muted"),
                        label=short_name(f"{axis.name} {label}"),
                    )
                )
        if handles:
            legend_above(figure, columns, handles)


def best_cells(
    worth: Mapping[str, float],
    baseline: str | None,
    limit: int = MOST_LINES,
) -> tuple[str, ...]:
    """Return up to `limit` cells, the baseline and those with the highest worth, in the order of `worth`."""

    def rank(cell: str) -> tuple[bool, float]:
        value = worth[cell]
        return cell != baseline, -value if math.isfinite(value) else math.inf

    kept = set(sorted(worth, key=rank)[:limit])
    return tuple(cell for cell in worth if cell in kept)


def sentence_on_choice(drawn: int, cells: int, what: str) -> str:
    """Return a sentence on the cells that `best_cells` left out; empty if it left out none."""
    if drawn >= cells:
        return ""
    return f"Of {cells:,} cells {drawn} are drawn: the baseline and those with the highest {what}."


def sentence_on_missing(data: StudyData, cells: Collection[str], what: str) -> str:
    """Return a sentence that names the cells of a study that are not among `cells`; empty if all are."""
    missing = [cell.name for cell in data.cells if cell.name not in cells]
    if not missing:
        return ""
    return f"Without {what}: {listed(missing)}."


def listed(names: Sequence[str]) -> str:
    """Return names as text, of many the first ones."""
    text = "; ".join(names[:_MOST_NAMES])
    if len(names) <= _MOST_NAMES:
        return text
    return f"{text}; and {len(names) - _MOST_NAMES:,} more"
