"""Scores over a study's axes of numbers, with the numbers of other systems as dashed lines."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import attrs

from sentbed_report.figures.axis_formats import label_numbers
from sentbed_report.figures.cell_styles import line_style
from sentbed_report.figures.colours import SERIES, colour
from sentbed_report.figures.drawn_rows import DrawnRow, DrawnRows, drawn_rows, score_label
from sentbed_report.figures.labels import label_text, line_legend, short_name
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.points import draw_points
from sentbed_report.formatting import number
from sentbed_report.study.main_effects import AxisEffect, main_effects
from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary_tables import Summary, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_THIN_LINES = 60
"""More lines behind the mean are a surface."""

_DASHES = ((6.0, 3.0), (3.0, 2.0), (1.5, 2.0), (8.0, 2.0, 2.0, 2.0), (4.0, 2.0, 1.0, 2.0), (10.0, 4.0))
"""Lengths of dash and gap of the references, which all have one colour: they are no axis of the study."""

_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s?([KMBT])(?![a-z])", re.IGNORECASE)
_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


@attrs.frozen
class _Lines:
    """Cells over the numbers of an axis."""

    axis: AxisInfo
    numbers: Mapping[str, float]
    """Label of the axis -> its number."""
    lines: Mapping[str, Sequence[DrawnRow]]
    """Labels on the other axes -> the cells that have them, in the order of their numbers."""
    rows: DrawnRows

    @property
    def coloured(self) -> bool:
        """Whether there are few enough lines for a colour each."""
        return len(self.lines) <= SERIES

    def points(self, rows: Sequence[DrawnRow]) -> tuple[list[float], list[float]]:
        """Return the numbers of cells and their means."""
        return [self.number(drawn) for drawn in rows], [drawn.mean for drawn in rows]

    def number(self, drawn: DrawnRow) -> float:
        """Return the number of a cell."""
        return self.numbers[drawn.row.labels[self.axis.name]]


def number_plots(data: StudyData, summary: Summary, name: str) -> tuple[Plot, ...]:
    """Draw the last column over each axis of numbers, model sizes among them, with the references.

    A cell that computes a reference is a dashed line instead of a point.
    """
    data, summary = _without_references(data, summary)
    data = attrs.evolve(data, axes=tuple(with_sizes(axis) for axis in data.axes))
    axes = {axis.name: axis for axis in data.axes}
    plots = []
    for index, effect in enumerate(main_effects(data, summary)):
        axis = axes[effect.axis]
        if axis.numbers is not None and len(set(axis.numbers)) > 1:
            lines = _lines(data, axis, effect, summary)
            if lines.lines:
                plots.append(_plot(lines, effect, summary, f"{name}{index}"))
    return tuple(plots)


def with_sizes(axis: AxisInfo) -> AxisInfo:
    """Return the axis with numbers where each of its labels names a count of parameters, as `opt-1.3b`."""
    if axis.numbers is not None:
        return axis
    numbers = []
    for label in axis.labels:
        size = _SIZE.search(label)
        if size is None:
            return axis
        numbers.append(float(size[1]) * _UNITS[size[2].lower()])
    if len(set(numbers)) < 2:
        return axis
    return attrs.evolve(axis, numbers=tuple(numbers))


def _without_references(data: StudyData, summary: Summary) -> tuple[StudyData, Summary]:
    """Return study and table without the cells that compute a reference, and labels that only these have."""
    references = {reference.cell for reference in data.references.values()}
    cells = tuple(cell for cell in data.cells if cell.name not in references)
    if len(cells) == len(data.cells):
        return data, summary
    axes = tuple(_used_labels(axis, {cell.labels[axis.name] for cell in cells}) for axis in data.axes)
    rows = tuple(row for row in summary.rows if row.cell not in references)
    return attrs.evolve(data, axes=axes, cells=cells), attrs.evolve(summary, rows=rows)


def _used_labels(axis: AxisInfo, used: set[str]) -> AxisInfo:
    places = [place for place, label in enumerate(axis.labels) if label in used]
    labels = tuple(axis.labels[place] for place in places)
    if axis.numbers is None:
        return attrs.evolve(axis, labels=labels)
    return attrs.evolve(axis, labels=labels, numbers=tuple(axis.numbers[place] for place in places))


def _lines(data: StudyData, axis: AxisInfo, effect: AxisEffect, summary: Summary) -> _Lines:
    """Return the lines of cells that differ in one axis, and those that change with it, only."""
    hidden = {effect.axis, *effect.together}
    others = [other.name for other in data.axes if other.name not in hidden and len(other.labels) > 1]
    lines: dict[str, list[DrawnRow]] = {}
    rows = drawn_rows(data, summary)
    for drawn in rows.sound:
        parts = [drawn.row.labels[other] for other in others]
        if drawn.row.name != drawn.row.cell:
            parts.append(drawn.row.encoder)
        lines.setdefault(", ".join(parts), []).append(drawn)
    shown = _Lines(axis, dict(zip(axis.labels, axis.numbers or (), strict=True)), lines, rows)
    for line in lines.values():
        line.sort(key=shown.number)
    return shown


def _plot(shown: _Lines, effect: AxisEffect, summary: Summary, name: str) -> Plot:
    references = []
    for reference in summary.references:
        value = reference.values[-1]
        if value is not None and math.isfinite(value):
            references.append((reference, value))

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        if shown.coloured:
            _draw_coloured(axes, shown)
        else:
            _draw_thin(axes, shown, effect)
        draw_points(axes, *shown.points(shown.rows.degenerate), colour("muted"), size=6, hollow=True)
        for (reference, value), dashes in zip(references, cycle(_DASHES), strict=False):
            axes.axhline(
                value,
                color=colour("fg"),
                linewidth=1.3,
                linestyle=(0, dashes),
                label=short_name(reference.name),
            )
        axes.set_xlabel(label_text(shown.axis.name))
        axes.set_ylabel(label_text(score_label(summary)))
        axes.margins(x=0.06, y=0.1)
        label_numbers(axes, list(shown.numbers.values()), list(shown.numbers))
        if references or len(shown.lines) > 1:
            line_legend(figure, axes, 3)

    captions = []
    if references:
        listed = "; ".join(
            f"{reference.name} {number(value, summary.digits)} ({reference.source or 'this study'})"
            for reference, value in references
        )
        captions.append(f"Dashed: {listed}.")
    if not shown.coloured:
        captions.append(f"Thin: cells that differ in {shown.axis.name} only; thick: their mean.")
    elif any(drawn.row.cells[-1].std for drawn in shown.rows.sound):
        captions.append("Bars: standard deviation over the seeds.")
    if len(shown.lines) > _MOST_THIN_LINES:
        captions.append(
            f"The first {_MOST_THIN_LINES} of {len(shown.lines):,} lines are drawn, the mean is over all."
        )
    captions.append(shown.rows.caption)
    entries = len(references)
    if shown.coloured:
        entries += len(shown.lines)
    title = f"{title_of(summary)} by {shown.axis.name}"
    height = 290 + 17 * math.ceil(entries / 3)
    return Plot(name, title, " ".join(filter(None, captions)), height, paint)


def _draw_coloured(axes: Axes, shown: _Lines) -> None:
    """Draw each line with bars of a standard deviation."""
    for index, (line, rows) in enumerate(shown.lines.items()):
        x, y = shown.points(rows)
        style = line_style(index)
        axes.plot(
            x,
            y,
            color=style.colour,
            marker=style.marker,
            markersize=4.5,
            linewidth=1.6,
            label=short_name(line),
        )
        spread = [drawn.row.cells[-1].std or 0.0 for drawn in rows]
        if any(spread):
            axes.errorbar(x, y, yerr=spread, fmt="none", ecolor=style.colour, elinewidth=1, capsize=3)


def _draw_thin(axes: Axes, shown: _Lines, effect: AxisEffect) -> None:
    """Draw thin lines, and their mean as a thick one."""
    for rows in list(shown.lines.values())[:_MOST_THIN_LINES]:
        axes.plot(*shown.points(rows), color=colour("muted"), linewidth=0.8, alpha=0.5)
    if effect.points:
        axes.plot(
            *zip(*effect.points, strict=True),
            color=colour("c0"),
            marker="o",
            linewidth=2.4,
            label="mean",
        )
