"""Scores of a study's cells against what the cells cost, with the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sentbed_report.figures.axis_formats import plain_logarithms, spans_powers
from sentbed_report.figures.cell_styles import CellMarkers, listed
from sentbed_report.figures.colours import colour
from sentbed_report.figures.drawn_rows import drawn_rows, score_label
from sentbed_report.figures.labels import label_text, name_point, task_and_metric
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.points import draw_points
from sentbed_report.formatting import count, number
from sentbed_report.study.score_against_cost import CostPoint, ScoreAgainstCost, title_of_both
from sentbed_report.study.study_data import StudyData

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def cost_plot(data: StudyData, against: ScoreAgainstCost, name: str) -> Plot:
    """Draw the score of each cell over its cost, a point a cell, and the Pareto front as steps."""
    cells = {cell.name: cell for cell in data.cells}
    markers = CellMarkers.of(data)
    points = sorted(against.points, key=lambda point: point.front or 0)
    front = [point for point in points if point.front]
    hollow = _degenerate_points(data, against)
    score_digits, cost_digits = against.scores.digits, against.column.digits

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set_xlabel(label_text(task_and_metric(against.column.task, against.column.metric)))
        axes.set_ylabel(label_text(score_label(against.scores)))
        _scale(axes, [point.cost for point in against.points])
        # What costs as much as there is between two points buys the score of the cheaper one.
        axes.step(
            [point.cost for point in front],
            [point.score for point in front],
            where="post",
            color=colour("muted"),
            linewidth=1.2,
            linestyle=(0, (4, 3)),
            zorder=1,
        )
        for point in points:
            style = markers.style(cells[point.row.cell])
            draw_points(
                axes,
                point.cost,
                point.score,
                style.colour,
                point.row.name,
                marker=style.marker,
                ringed=point.row.cell == data.baseline,
                alpha=1 if point.front else 0.5,
            )
            if point.front:
                name_point(axes, str(point.front), (point.cost, point.score), (0, 7))
        for point in hollow:
            style = markers.style(cells[point.row.cell])
            draw_points(axes, point.cost, point.score, style.colour, marker=style.marker, hollow=True)
        axes.margins(x=0.08, y=0.12)
        markers.draw_legend(figure, 2)

    on_front = "; ".join(
        f"{point.front}: {point.row.name}, {number(point.score, score_digits)} for "
        f"{number(point.cost, cost_digits)}"
        for point in front
    )
    captions = [
        f"{count(len(against.points), 'point')}, each a cell's mean over seeds. The Pareto front: {on_front}."
    ]
    if any(point.row.cell == data.baseline for point in against.points):
        captions.append("Ringed: the baseline.")
    if hollow:
        captions.append(f"Hollow, degenerate: {listed([point.row.name for point in hollow])}.")
    drawn = {point.row.name for point in (*against.points, *hollow)}
    undrawn = [row.name for row in against.scores.rows if row.name not in drawn]
    rows = {row.cell for row in against.scores.rows}
    undrawn += [cell for cell in cells if cell not in rows]
    if undrawn:
        captions.append(f"Not drawn, since a number is missing: {listed(undrawn)}.")
    return Plot(
        name,
        title_of_both(against),
        " ".join(captions),
        320 + 17 * math.ceil(markers.entries / 2),
        paint,
    )


def _degenerate_points(data: StudyData, against: ScoreAgainstCost) -> list[CostPoint]:
    """Return a point for each row with a degenerate score and a cost; none is on the Pareto front."""
    rows = {(row.cell, row.encoder): row for row in against.costs.rows if row.status == "finished"}
    points = []
    for drawn in drawn_rows(data, against.scores).degenerate:
        row = rows.get((drawn.row.cell, drawn.row.encoder))
        cost = None if row is None else row.cells[against.index].value
        if row is not None and cost is not None and math.isfinite(cost):
            points.append(CostPoint(drawn.row, row.cells, drawn.mean, cost, None))
    return points


def _scale(axes: Axes, costs: Sequence[float]) -> None:
    from matplotlib.ticker import LogLocator

    if spans_powers(costs):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        plain_logarithms(axes.xaxis)
