"""Figure of the scores of a study's cells against their costs, with the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

from sentbed_report.figures.axis_formats import plain_logarithms, spans_powers
from sentbed_report.figures.cell_styles import CellMarkers
from sentbed_report.figures.colours import colour
from sentbed_report.figures.drawn_rows import drawn_rows, score_label
from sentbed_report.figures.labels import label_text, task_and_metric
from sentbed_report.figures.plot import Plot
from sentbed_report.formatting import count, first_names, number
from sentbed_report.study.score_against_cost import ScoreAgainstCost, title_of_both
from sentbed_report.study.study_data import StudyData

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


def cost_plot(data: StudyData, against: ScoreAgainstCost) -> Plot:
    """Draw the score of each cell over its cost, with the Pareto front as a stepped line."""
    markers = CellMarkers(data)
    points = _points(data, against)
    front = points[points["front"] > 0]
    costs = points.loc[~points["degenerate"], "x"]

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import LogLocator

        axes = figure.subplots()
        cost_label = task_and_metric(against.column.task, against.column.metric)
        axes.set_xlabel(label_text(cost_label))
        axes.set_ylabel(label_text(score_label(against.scores)))

        if spans_powers([*costs]):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            plain_logarithms(axes.xaxis)

        # At a cost between those of two points of the front, the best score is that of the cheaper point.
        axes.step(
            front["x"],
            front["y"],
            where="post",
            color=colour("muted"),
            linewidth=1.2,
            linestyle=(0, (4, 3)),
            zorder=1,
        )
        markers.draw(axes, points)
        axes.margins(x=0.08, y=0.12)
        markers.draw_legend(figure, 2)

    on_front = []
    for point in front.itertuples():
        score = number(point.y, against.scores.digits)
        cost = number(point.x, against.column.digits)
        on_front.append(f"{point.text}: {point.name}, {score} for {cost}")
    captions = [
        f"{count(len(costs), 'point')}, each a cell's mean over seeds. "
        f"The Pareto front: {'; '.join(on_front)}.",
        markers.sentences(points),
    ]
    undrawn = _undrawn(data, against, set(points["name"]))
    if undrawn:
        captions.append(
            f"Not drawn, since a number is missing: {first_names(undrawn)}."
        )
    height = 320 + 17 * math.ceil(markers.entries / 2)
    return Plot(title_of_both(against), captions, height, paint)


def _undrawn(
    data: StudyData,
    against: ScoreAgainstCost,
    drawn: Collection[str],
) -> list[str]:
    """Return the names of the rows that are not drawn, then of the cells that have no row."""
    undrawn = [row.name for row in against.scores.rows if row.name not in drawn]
    cells_with_rows = {row.cell for row in against.scores.rows}
    for cell in data.cells:
        if cell.name not in cells_with_rows:
            undrawn.append(cell.name)
    return undrawn


def _points(data: StudyData, against: ScoreAgainstCost) -> pandas.DataFrame:
    """Return a point for each row that has a score and a cost.

    Points that are not on the Pareto front come first, then those on it in the front's order, then points whose
    score is degenerate: it says nothing about the encoder.
    """
    import pandas

    rows = []
    for point in against.points:
        row, front = point.row, point.front or 0
        rows.append((row.name, row.cell, point.cost, point.score, False, front))
    costs = {row.key: row for row in against.costs.rows if row.status == "finished"}
    for drawn in drawn_rows(data, against.scores).degenerate.itertuples():
        if drawn.row.key not in costs:
            continue
        cost = costs[drawn.row.key].cells[against.index].value
        if cost is not None and math.isfinite(cost):
            rows.append((drawn.name, drawn.cell, cost, drawn.value, True, 0))

    columns = ["name", "cell", "x", "y", "degenerate", "front"]
    points = pandas.DataFrame(rows, columns=columns)
    points = points.sort_values(["degenerate", "front"], kind="stable")
    points["text"] = points["front"].astype(str).replace("0", "")
    points["alpha"] = 1.0
    points.loc[~points["degenerate"] & (points["front"] == 0), "alpha"] = 0.5
    return points
