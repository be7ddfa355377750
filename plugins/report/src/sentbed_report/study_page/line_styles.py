"""Styles of cells in a study's plots, and the choice of cells to show."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs

from sentbed_report.matplotlib_svg import colour, label_text, legend_above
from sentbed_report.study.study_data import AxisInfo, CellInfo, StudyData

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

LINES = 12
"""Maximum number of lines, or labelled points, in a readable plot."""

TONES = 6
_MARKERS = ("o", "s", "^", "D", "v", "P")
_STYLES = ("solid", (0, (4, 2)))

_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s?([KMBT])(?![a-z])", re.IGNORECASE)
_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


@attrs.frozen
class Tone:
    """Style of a line or point."""

    colour: str
    marker: str
    style: object


def tone(index: int) -> Tone:
    """Return the looks of the line with this number: colours first, then dashes."""
    return Tone(
        colour(f"c{index % TONES}"), _MARKERS[index // TONES % len(_MARKERS)], _STYLES[index // TONES % 2]
    )


def group_tones(data: StudyData) -> tuple[tuple[AxisInfo, ...], Callable[[CellInfo], Tone]]:
    """Return the axes that are told by colour and by shape, and the looks of each cell."""
    axes = tuple(axis for axis in data.axes if 1 < len(axis.labels) <= TONES)[:2]

    def of(cell: CellInfo) -> Tone:
        places = [axis.labels.index(cell.labels[axis.name]) for axis in axes]
        first, second = (*places, 0, 0)[:2]
        return Tone(colour(f"c{first}"), _MARKERS[second], _STYLES[0])

    return axes, of


def tone_legend(axes: Axes, told: Sequence[AxisInfo], columns: int) -> None:
    """Draw a legend above a plot that tells the labels of `told`; none if there are none."""
    if handles := list(_tone_handles(told)):
        legend_above(axes, columns, handles)


def _tone_handles(axes: Sequence[AxisInfo]) -> Iterator[Line2D]:
    """Yield an entry of the legend for each label: colours of the first axis, shapes of the second."""
    from matplotlib.lines import Line2D

    for index, axis in enumerate(axes):
        for nth, label in enumerate(axis.labels):
            look = tone(nth * TONES if index else nth)
            shade = colour("muted") if index else look.colour
            text = label_text(f"{axis.name} {label}", 28)
            yield Line2D([], [], linestyle="", marker=look.marker, color=shade, label=text)


def with_sizes(axis: AxisInfo) -> AxisInfo:
    """Return the axis with numbers where each of its labels names a count of parameters, as `opt-1.3b`."""
    if axis.numbers is not None:
        return axis
    found = [_SIZE.search(label) for label in axis.labels]
    numbers = tuple(float(m[1]) * _UNITS[m[2].lower()] for m in found if m)
    if len(numbers) < len(axis.labels) or len(set(numbers)) < 2:
        return axis
    return attrs.evolve(axis, numbers=numbers)


def spans_powers(numbers: Sequence[float]) -> bool:
    """Whether numbers are read better on a logarithmic scale: positive, and of more than one power of ten
    or each a multiple of the one before."""
    ordered = sorted(set(numbers))
    if len(ordered) < 2 or ordered[0] <= 0:
        return False
    ratios = [after / before for before, after in pairwise(ordered)]
    even = len(ratios) > 1 and min(ratios) >= 1.9 and max(ratios) <= min(ratios) * 1.1
    return ordered[-1] / ordered[0] >= 20 or even


def chosen(worth: dict[str, float], baseline: str | None, limit: int = LINES) -> tuple[str, ...]:
    """Return up to `limit` cells of those with a worth, the baseline and those with the highest, in order."""
    ordered = sorted(
        worth, key=lambda cell: (cell != baseline, -worth[cell] if math.isfinite(worth[cell]) else math.inf)
    )
    kept = set(ordered[:limit])
    return tuple(cell for cell in worth if cell in kept)


def left_out(shown: int, there: int, what: str) -> str:
    """Return a sentence on the cells omitted from a plot; empty if none were."""
    if shown >= there:
        return ""
    return f"Of {there:,} cells {shown} are drawn: the baseline and those with the highest {what}."
