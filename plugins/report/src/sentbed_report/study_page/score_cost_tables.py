"""Scores against costs for the page and Markdown, as tables."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from sentbed_report.formatting import number
from sentbed_report.study.score_against_cost import ScoreAgainstCost, scores_against_cost
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study.summary_tables import Summary


@attrs.frozen
class CostLine:
    """A row: its texts and, for sorting, its numbers."""

    cell: CellInfo
    name: str
    front: int | None
    """Number on the Pareto front."""
    entries: tuple[tuple[str, float | None], ...]
    """The numbers below the headings, as text and as they are."""


@attrs.frozen
class CostTable:
    """Score and costs of each cell."""

    found: ScoreAgainstCost
    title: str
    headings: tuple[str, ...]
    """Of the score, the cost that decides the front, and the other costs."""
    rows: tuple[CostLine, ...]
    remark: str


def cost_tables(data: StudyData, summaries: Sequence[Summary]) -> tuple[CostTable, ...]:
    """Return a table for each score with costs."""
    cells = {cell.name: cell for cell in data.cells}
    return tuple(_table(cells, found) for found in scores_against_cost(summaries, data.cost))


def _table(cells: dict[str, CellInfo], found: ScoreAgainstCost) -> CostTable:
    scores, costs = found.scores, found.costs
    order = sorted(range(len(costs.columns)), key=lambda index: index != found.index)
    digits = (scores.digits, *(costs.decimals[index] for index in order))
    lines = []
    for point in found.points:
        means = [point.score, *(point.costs[index].mean for index in order)]
        entries = tuple(zip(map(number, means, digits), means, strict=True))
        lines.append(CostLine(cells[point.row.cell], point.row.name, point.front, entries))
    return CostTable(
        found,
        title_of_both(found),
        # Units are in the headings of the table of costs; here are many columns.
        (scores.headings[-1], *(costs.columns[index].task for index in order)),
        tuple(lines),
        _remark(found),
    )


def title_of_both(found: ScoreAgainstCost) -> str:
    """Return a title that names the score and the cost."""
    scores = found.scores
    parts = [scores.evaluator]
    if scores.protocol not in ("", scores.evaluator):
        parts.append(scores.protocol)
    parts += [text for text in (scores.apart, found.costs.apart) if text]
    return f"{', '.join(parts)}: {scores.headings[-1]} against {found.column.task}"


def _remark(found: ScoreAgainstCost) -> str:
    score, cost = found.scores.columns[-1], found.column
    said = (
        f"Numbered: the Pareto front. No other cell is as good in {found.scores.headings[-1]} "
        f"({'lower' if score.lower else 'higher'} is better) and in {cost.task} "
        f"({'lower' if cost.lower else 'higher'} is better), and better in one of them. Means over seeds; "
        "whether a difference is more than chance is not tested here."
    )
    if stopped := [point.row.name for point in found.points if point.row.stopped]:
        said += (
            f" Stopped, with means over other seeds than those of cells that went on: {'; '.join(stopped)}."
        )
    if found.left:
        said += f" Without a point, since a number is missing or degenerate: {'; '.join(found.left)}."
    return said
