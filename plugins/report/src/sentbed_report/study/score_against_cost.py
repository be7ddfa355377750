"""Scores of a study's cells against their costs, with the Pareto front of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from sentbed_report.run_cost import KEY
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate


@attrs.frozen
class CostPoint:
    """Score and cost of a row, as means over the seeds."""

    row: SummaryRow
    """The row in the table of scores."""
    costs: tuple[Estimate, ...]
    """All numbers of the same row in the table of costs."""
    score: float
    cost: float
    front: int | None
    """Position on the Pareto front, from 1 for the lowest cost; None if it is not on the front, because another
    row is at least as good in both and better in one."""


@attrs.frozen
class ScoreAgainstCost:
    """The last column of a table of scores against one column of a table of costs."""

    scores: Summary
    costs: Summary
    index: int
    """Number of the column of `costs`."""
    points: tuple[CostPoint, ...]
    left: tuple[str, ...]
    """Names of finished rows that have a score but no point, because a number is missing or degenerate."""

    @property
    def column(self) -> Column:
        """The column of costs."""
        return self.costs.columns[self.index]


def pareto_front(costs: Sequence[float], scores: Sequence[float]) -> tuple[int, ...]:
    """Return the indices of the Pareto front for low costs and high scores, the lowest cost first.

    A point is on the front unless another has at most its cost and at least its score, and is better in one of
    them. Of points equal in both, all are on the front or none.
    """
    front: list[int] = []
    places = range(len(costs))
    for place in sorted(places, key=lambda place: (costs[place], -scores[place])):
        last = front[-1] if front else place
        is_equal = costs[place] == costs[last] and scores[place] == scores[last]
        if is_equal or scores[place] > scores[last]:
            front.append(place)
    return tuple(front)


def scores_against_cost(
    summaries: Sequence[Summary], cost: str = ""
) -> tuple[ScoreAgainstCost, ...]:
    """Return the last column of each table of scores, against the cost of its cells.

    `cost` is a task of any table, by default the first cost that each evaluator has measured. Columns without
    a direction and tables of further metrics are left out. Empty if there is no cost.
    """
    tables = []
    for costs, index in _columns(summaries, cost):
        for scores in summaries:
            if scores is costs or scores.metric or not scores.columns[-1].ranked:
                continue
            table = _against(scores, costs, index)
            if table.points:
                tables.append(table)
    return tuple(tables)


def unknown_cost(summaries: Sequence[Summary], cost: str) -> str:
    """Return a sentence with the known tasks if no task is called `cost`; else empty."""
    if not cost or not summaries or any(_columns(summaries, cost)):
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


def _columns(summaries: Sequence[Summary], cost: str) -> Iterator[tuple[Summary, int]]:
    """Yield the columns of a cost; there are several if it was measured under different protocols.

    Without a name, yield the first cost of each evaluator.
    """
    for summary in summaries:
        name = cost or _first_cost(summary)
        for index, column in enumerate(summary.columns):
            if name and column.task == name and column.direction != "none":
                yield summary, index


def _first_cost(summary: Summary) -> str:
    """Return the name of the first cost of a table; empty without one, and for the recorded costs of runs."""
    # The seconds of runs often differ by chance alone, so they are drawn only if they are asked for.
    if summary.evaluator == KEY:
        return ""

    for column in summary.columns:
        if column.cost and column.direction != "none":
            return column.task

    return ""


def _against(scores: Summary, costs: Summary, index: int) -> ScoreAgainstCost:
    """Return the last column of `scores` against column number `index` of `costs`."""
    finished = {row.key: row for row in costs.rows if row.status == "finished"}
    cost_sign = 1 if costs.columns[index].lower else -1
    score_sign = -1 if scores.columns[-1].lower else 1
    points = []
    left = []
    signed_costs = []
    signed_scores = []
    for row in scores.rows:
        row_of_costs = finished.get(row.key)
        if row_of_costs is None:
            continue
        score = _mean(row.cells[-1])
        cost = _mean(row_of_costs.cells[index])
        if score is None or cost is None:
            left.append(row.name)
        else:
            points.append(CostPoint(row, row_of_costs.cells, score, cost, None))
            signed_costs.append(cost_sign * cost)
            signed_scores.append(score_sign * score)
    front = pareto_front(signed_costs, signed_scores)
    for number, place in enumerate(front, start=1):
        points[place] = attrs.evolve(points[place], front=number)
    return ScoreAgainstCost(scores, costs, index, tuple(points), tuple(left))


def _mean(cell: Estimate) -> float | None:
    """Return a number that can be drawn; None if it is degenerate or not finite."""
    if cell.degenerate or not cell.is_finite:
        return None
    return cell.value


def title_of_both(against: ScoreAgainstCost) -> str:
    """Return a title that names the score and the cost."""
    scores = against.scores
    parts = [*scores.names]
    parts += filter(None, (scores.apart, against.costs.apart))
    return f"{', '.join(parts)}: {scores.headings[-1]} against {against.column.task}"
