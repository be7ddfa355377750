"""Scores of a study's rows against their costs, with the Pareto front of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from sentbed_report.run_cost import KEY
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import MEAN_DECIMALS, Estimate


@attrs.frozen
class CostPoint:
    """Score and cost of a row, as means over the seeds."""

    row: SummaryRow
    """The row in the table of scores."""
    costs: tuple[Estimate, ...]
    """All estimates of the same row in the table of costs."""
    score: float
    cost: float
    front: int | None
    """Position on the Pareto front, from 1 for the lowest cost. None if the row is not on the front: another
    row is at least as good in both and better in one of them."""


@attrs.frozen
class ScoreAgainstCost:
    """The last column of a table of scores, against one column of a table of costs."""

    scores: Summary
    costs: Summary
    index: int
    """Index of the column in `costs`."""
    points: tuple[CostPoint, ...]
    left: tuple[str, ...]
    """Names of finished rows without a point, because their score or cost is missing or degenerate."""

    @property
    def column(self) -> Column:
        """The column of costs."""
        return self.costs.columns[self.index]


def pareto_front(costs: Sequence[float], scores: Sequence[float]) -> tuple[int, ...]:
    """Return the indices on the Pareto front of low costs and high scores, the lowest cost first.

    A point is on the front unless another point has at most its cost and at least its score, and is better in
    one of them. Points with equal costs and equal scores are either all on the front, or none of them is.
    """
    by_cost = sorted(
        range(len(costs)), key=lambda index: (costs[index], -scores[index])
    )
    front = by_cost[:1]
    for index in by_cost[1:]:
        last = front[-1]
        is_equal = costs[index] == costs[last] and scores[index] == scores[last]
        if is_equal or scores[index] > scores[last]:
            front.append(index)
    return tuple(front)


def scores_against_cost(
    summaries: Sequence[Summary], cost: str = ""
) -> tuple[ScoreAgainstCost, ...]:
    """Return the last column of each table of scores, against the cost of its rows.

    `cost` is a task of any table, by default the first cost that each evaluator has measured. Tables of further
    metrics are left out, and tables in whose last column neither higher nor lower scores are better. The result
    is empty if there is no cost.
    """
    tables = []
    for costs, index in _columns_of_cost(summaries, cost):
        for scores in summaries:
            if scores is costs or scores.metric or not scores.columns[-1].ranked:
                continue
            table = _score_against_cost(scores, costs, index)
            if table.points:
                tables.append(table)
    return tuple(tables)


def unknown_cost(summaries: Sequence[Summary], cost: str) -> str:
    """Return a sentence with the known costs if the study's `cost` was not measured.

    It is empty if the cost was measured, if `cost` is empty, or if there are no tables.
    """
    if not cost or not summaries or any(_columns_of_cost(summaries, cost)):
        return ""
    remedy = "add the evaluator `encoding-cost`."
    names = names_of_costs(summaries)
    if names:
        remedy = f"set it to one of {', '.join(names)}."
    return f"The study's `cost` is `{cost}`, which was not measured; {remedy}"


def names_of_costs(summaries: Sequence[Summary]) -> list[str]:
    """Return the names of all measured costs, in backticks."""
    names: dict[str, None] = {}
    for summary in summaries:
        for column in summary.columns:
            if column.cost:
                names[f"`{column.task}`"] = None
    return list(names)


def _columns_of_cost(
    summaries: Sequence[Summary], cost: str
) -> Iterator[tuple[Summary, int]]:
    """Yield each column of a cost: its table and its index.

    There are several if the cost was measured under different protocols. If `cost` is empty, yield the first
    cost of each evaluator.
    """
    for summary in summaries:
        name = cost or _first_cost(summary)
        for index, column in enumerate(summary.columns):
            if name and column.task == name and column.direction != "none":
                yield summary, index


def _first_cost(summary: Summary) -> str:
    """Return the name of a table's first cost; empty if it has none, or if its costs are those of runs."""
    # The seconds of runs often differ by chance alone, so they are drawn only if they are asked for.
    if summary.evaluator == KEY:
        return ""

    for column in summary.columns:
        if column.cost and column.direction != "none":
            return column.task

    return ""


def _score_against_cost(
    scores: Summary,
    costs: Summary,
    index: int,
) -> ScoreAgainstCost:
    """Return the last column of `scores` against the column `index` of `costs`."""
    finished = {row.key: row for row in costs.rows if row.status == "finished"}
    # With these signs, lower costs and higher scores are better.
    cost_sign = 1
    if not costs.columns[index].lower:
        cost_sign = -1
    score_sign = 1
    if scores.columns[-1].lower:
        score_sign = -1

    points = []
    left = []
    signed_costs = []
    signed_scores = []
    for row in scores.rows:
        row_of_costs = finished.get(row.key)
        if row_of_costs is None:
            continue
        score = _drawable_mean(row.cells[-1])
        cost = _drawable_mean(row_of_costs.cells[index])
        if score is None or cost is None:
            left.append(row.name)
        else:
            points.append(CostPoint(row, row_of_costs.cells, score, cost, None))
            signed_costs.append(cost_sign * cost)
            # Means that are equal up to rounding errors are ties.
            signed_scores.append(round(score_sign * score, MEAN_DECIMALS))

    front = pareto_front(signed_costs, signed_scores)
    for position, number in enumerate(front, start=1):
        points[number] = attrs.evolve(points[number], front=position)
    return ScoreAgainstCost(scores, costs, index, tuple(points), tuple(left))


def _drawable_mean(cell: Estimate) -> float | None:
    """Return the mean of an estimate; None if it has none, or is degenerate or not finite."""
    if cell.degenerate or not cell.is_finite:
        return None
    return cell.value


def title_of_both(against: ScoreAgainstCost) -> str:
    """Return a title that names the score and the cost."""
    scores = against.scores
    parts = [*scores.names]
    for apart in (scores.apart, against.costs.apart):
        if apart:
            parts.append(apart)
    return f"{', '.join(parts)}: {scores.headings[-1]} against {against.column.task}"
