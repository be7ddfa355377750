"""Figures of scores over the numeric axes of a study, with reference systems as dashed lines.

An axis of a study is numeric if each of its labels sets one number in the recipe. A reference is an entry of
`[study.references]`: another system, or a cell, with which cells are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import attrs

from sentbed_report.figures.axis_formats import label_numbers
from sentbed_report.figures.colours import SERIES, colour, series_colour
from sentbed_report.figures.curves import draw_curve
from sentbed_report.figures.drawn_rows import DrawnRows, drawn_rows, score_label
from sentbed_report.figures.labels import label_text, legend_above
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.points import draw_points
from sentbed_report.formatting import number
from sentbed_report.study.axis_effects import together_with
from sentbed_report.study.study_data import AxisInfo, CellInfo, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary, title_of

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_THIN_LINES = 60
"""Maximum number of thin lines; more lines would merge into a surface."""

_DASHES = (
    (6.0, 3.0),
    (3.0, 2.0),
    (1.5, 2.0),
    (8.0, 2.0, 2.0, 2.0),
    (4.0, 2.0, 1.0, 2.0),
    (10.0, 4.0),
)
"""Lengths of dashes and gaps. References differ in these and not in colour, since colours stand for labels of
axes."""


def numeric_axis_plots(data: StudyData, summary: Summary) -> list[Plot]:
    """Draw one plot per numeric axis: the scores in a table's last column over the axis, with the references.

    A cell that serves as a reference is a dashed line instead of a point.
    """
    references = {reference.cell for reference in data.references.values()}
    cells = [cell for cell in data.cells if cell.name not in references]
    rows = [row for row in summary.rows if row.cell not in references]
    data = attrs.evolve(data, cells=tuple(cells))
    summary = attrs.evolve(summary, rows=tuple(rows))
    drawn = drawn_rows(data, summary)
    if drawn.sound.empty:
        return []

    plots = []
    for axis in data.axes:
        numbers = _numbers_of_labels(axis, cells)
        if len(set(numbers.values())) > 1:
            plots.append(_plot(data, summary, axis, numbers, drawn))
    return plots


def _numbers_of_labels(axis: AxisInfo, cells: Sequence[CellInfo]) -> dict[str, float]:
    """Return label -> number that it sets, for the labels of these cells; empty if the axis is not numeric."""
    labels = {cell.labels[axis.name] for cell in cells}
    numbers = {}
    for label, value in zip(axis.labels, axis.numbers or (), strict=False):
        if label in labels:
            numbers[label] = value
    return numbers


def _plot(
    data: StudyData,
    summary: Summary,
    axis: AxisInfo,
    numbers: Mapping[str, float],
    drawn: DrawnRows,
) -> Plot:
    """Draw the rows of a table over one axis; `numbers` has the number that each label sets."""
    references = _references(summary)
    rows = drawn.rows.assign(
        number=[numbers[row.labels[axis.name]] for row in drawn.rows["row"]],
        line=[_line_name(data, row, axis) for row in drawn.rows["row"]],
    )
    hollow = rows[rows["degenerate"]]
    lines = {}
    for line, points in rows[~rows["degenerate"]].groupby("line", sort=False):
        lines[str(line)] = points.sort_values("number", kind="stable")
    coloured = len(lines) <= SERIES

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        if coloured:
            _draw_coloured(axes, lines)
        else:
            _draw_thin(axes, lines)

        draw_points(
            axes,
            hollow["number"],
            hollow["value"],
            colour("muted"),
            size=6,
            hollow=True,
        )
        _draw_references(axes, references)

        axes.set(xlabel=label_text(axis.name), ylabel=label_text(score_label(summary)))
        axes.margins(x=0.06, y=0.1)
        label_numbers(axes, [*numbers.values()], [*numbers])
        if references or len(lines) > 1:
            legend_above(figure, 3)

    captions = []
    if references:
        dashed = [reference.caption for reference in references]
        captions.append(f"Dashed: {'; '.join(dashed)}.")
    if not coloured:
        captions += _captions_of_thin_lines(len(lines), axis.name)
    elif drawn.sound["std"].any():
        captions.append("Bars: standard deviation over the seeds.")
    captions.append(drawn.caption)

    legend_entries = len(references)
    if coloured:
        legend_entries += len(lines)
    height = 290 + 17 * math.ceil(legend_entries / 3)
    title = f"{title_of(summary)} by {axis.name}"
    return Plot(title, captions, height, paint)


def _captions_of_thin_lines(lines: int, axis: str) -> Iterator[str]:
    """Yield sentences that explain thin lines."""
    yield f"Thin: cells that differ in {axis} only."
    if lines > _MOST_THIN_LINES:
        yield f"The first {_MOST_THIN_LINES} of {lines:,} lines are drawn."


@attrs.frozen
class _DrawnReference:
    """A reference with a finite number in the last column of a table."""

    name: str
    value: float
    caption: str
    """Name, number and source."""


def _references(summary: Summary) -> list[_DrawnReference]:
    """Return the references of a table that can be drawn."""
    references = []
    for reference in summary.references:
        value = reference.values[-1]
        if value is not None and math.isfinite(value):
            source = reference.source or "this study"
            caption = f"{reference.name} {number(value, summary.digits)} ({source})"
            references.append(_DrawnReference(reference.name, value, caption))
    return references


def _line_name(
    data: StudyData,
    row: SummaryRow,
    axis: AxisInfo,
) -> str:
    """Return the name of a row's line: the labels on the other axes, which all rows of the line share.

    Axes that change together with the plot's axis, and axes on which all cells have the same label, are left out.
    """
    labels = []
    left_out = (axis.name, *together_with(data, axis))
    for other in data.axes:
        labels_of_cells = {cell.labels[other.name] for cell in data.cells}
        if other.name not in left_out and len(labels_of_cells) > 1:
            labels.append(row.labels[other.name])
    if row.name != row.cell:
        labels.append(row.encoder)
    return ", ".join(labels)


def _draw_references(axes: Axes, references: Sequence[_DrawnReference]) -> None:
    """Draw each reference as a horizontal line with its own dashes."""
    for reference, dashes in zip(references, cycle(_DASHES), strict=False):
        axes.axhline(
            reference.value,
            color=colour("fg"),
            linewidth=1.3,
            linestyle=(0, dashes),
            label=reference.name,
        )


def _draw_coloured(axes: Axes, lines: Mapping[str, pandas.DataFrame]) -> None:
    """Draw each line in a colour of its own, with error bars of one standard deviation."""
    for index, (line, rows) in enumerate(lines.items()):
        draw_curve(axes, rows[["number", "value"]].to_numpy(), index, line)
        if rows["std"].any():
            tone = series_colour(index)
            axes.errorbar(
                rows["number"],
                rows["value"],
                rows["std"],
                fmt="none",
                ecolor=tone,
                capsize=3,
            )


def _draw_thin(axes: Axes, lines: Mapping[str, pandas.DataFrame]) -> None:
    """Draw thin lines, all in one colour."""
    for rows in [*lines.values()][:_MOST_THIN_LINES]:
        axes.plot(
            rows["number"],
            rows["value"],
            color=colour("muted"),
            linewidth=0.8,
            alpha=0.5,
        )
