"""Plots of scores against costs, with their Pareto fronts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sentbed_report.formatting import count, number
from sentbed_report.matplotlib_svg import Drawing, colour, label_text
from sentbed_report.run_plots import WIDTH, Plot
from sentbed_report.study.score_against_cost import ScoreAgainstCost
from sentbed_report.study.study_data import StudyData
from sentbed_report.study_page.line_styles import group_tones, spans_powers, tone_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def cost_plot(data: StudyData, found: ScoreAgainstCost, title: str, name: str) -> Plot:
    """Draw the score of each cell over its cost, a point a cell, and the Pareto front as steps."""
    cells = {cell.name: cell for cell in data.cells}
    axes_told, looks = group_tones(data)
    front = sorted((point for point in found.points if point.front), key=lambda point: point.front or 0)
    behind = [point for point in found.points if not point.front]
    baseline = any(point.row.cell == data.baseline for point in found.points)
    entries = sum(len(axis.labels) for axis in axes_told)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set_xlabel(label_text(found.costs.headings[found.index]))
        axes.set_ylabel(label_text(found.scores.headings[-1]))
        _scale(axes, [point.cost for point in found.points])
        # What costs as much as there is between two points buys the score of the cheaper one.
        x, y = [point.cost for point in front], [point.score for point in front]
        axes.step(x, y, where="post", color=colour("muted"), linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
        for point in (*behind, *front):
            look = looks(cells[point.row.cell])
            ringed = point.row.cell == data.baseline
            axes.plot(
                point.cost,
                point.score,
                look.marker,
                color=look.colour,
                markeredgecolor=colour("fg") if ringed else look.colour,
                markeredgewidth=1.6 if ringed else 0.8,
                markersize=8,
                alpha=1 if point.front else 0.5,
            )
        for point in front:
            axes.annotate(
                str(point.front),
                (point.cost, point.score),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
                va="bottom",
            )
        axes.margins(x=0.08, y=0.12)
        tone_legend(axes, axes_told, 2)

    digits = found.scores.digits, found.costs.decimals[found.index]
    told = "; ".join(
        f"{one.front}: {one.row.name}, {number(one.score, digits[0])} for {number(one.cost, digits[1])}"
        for one in front
    )
    label = label_text(f"{title}. On the Pareto front: {told}", 400)
    caption = f"{count(len(found.points), 'point')}, each a cell's mean over seeds. The Pareto front: {told}."
    if baseline:
        caption += " Ringed: the baseline."
    height = 320 + 17 * math.ceil(entries / 2)
    return Plot(Drawing(name, label, WIDTH, height, paint), title, caption)


def _scale(axes: Axes, costs: Sequence[float]) -> None:
    if not spans_powers(costs):
        return
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    # Its own formatter writes mathematics, which pages do not read.
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.xaxis.set_minor_locator(NullLocator())
