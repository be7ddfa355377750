"""Scores of a study's cells against what the cells cost, and the cells that no other one beats in both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs

from sentbed_report.run_cost import KEY
from sentbed_report.study.summary_tables import Summary, SummaryRow
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate


@attrs.frozen
class CostPoint:
    """A row of a study's tables, with its score and its cost as means over the seeds."""

    row: SummaryRow
    """Its row in the table of scores."""
    costs: tuple[Estimate, ...]
    """All numbers of its row in the table of costs."""
    score: float
    cost: float
    front: int | None
    """Number on the Pareto front, from 1 in the order of costs, the best first; None if another row is as
    good in both and better in one."""


@attrs.frozen
class ScoreAgainstCost:
    """The last column of a table of scores against one column of a table of costs."""

    scores: Summary
    costs: Summary
    index: int
    """Number of the column of `costs`."""
    points: tuple[CostPoint, ...]
    left: tuple[str, ...]
    """Names of finished rows that have a score and no point, since a number is missing or degenerate."""

    @property
    def column(self) -> Column:
        """The column of costs."""
        return self.costs.columns[self.index]


def pareto_front(costs: Sequence[float], scores: Sequence[float]) -> tuple[int, ...]:
    """Return the places of the Pareto front, of low costs and high scores, the lowest cost first.

    A place is on it if no other one has at most its cost and at least its score, and one of them better. Of
    equal places, all are on it or none.
    """
    front: list[int] = []
    for place in sorted(range(len(costs)), key=lambda one: (costs[one], -scores[one])):
        best = front[-1] if front else None
        equal = best is not None and (costs[best], scores[best]) == (costs[place], scores[place])
        if best is None or equal or scores[place] > scores[best]:
            front.append(place)
    return tuple(front)


def scores_against_cost(summaries: Sequence[Summary], cost: str = "") -> tuple[ScoreAgainstCost, ...]:
    """Return each table of scores, by its last column, against the cost of its cells.

    `cost` is a task of any table, by default the first that an evaluator has measured as a cost. Scores that
    cannot be ranked and tables of further metrics are left out; nothing is returned if there is no cost.
    """
    return tuple(
        found
        for costs, index in _columns(summaries, cost)
        for scores in summaries
        if scores is not costs and scores.columns[-1].ranked and not scores.metric
        if (found := _against(scores, costs, index)).points
    )


def unknown_cost(summaries: Sequence[Summary], cost: str) -> str:
    """Return a sentence that says which tasks there are if none is called `cost`; empty if there is one."""
    if not cost or not summaries or any(_columns(summaries, cost)):
        return ""
    tasks = dict.fromkeys(column.task for one in summaries for column in one.columns if column.cost)
    listed = ", ".join(f"`{task}`" for task in tasks)
    return f"The study's `cost` is `{cost}`, which was not measured; " + (
        f"set it to one of {listed}." if listed else "add the evaluator `encoding-cost`."
    )


def _columns(summaries: Sequence[Summary], cost: str) -> Iterator[tuple[Summary, int]]:
    """Yield the columns of a cost: several, if it was measured under different protocols."""
    # Cells that differ in their seconds by chance alone are not to be drawn over them unasked.
    measured = (one for one in summaries if one.evaluator != KEY)
    wanted = cost or next((c.task for one in measured for c in one.columns if c.cost), None)
    for summary in summaries:
        for index, column in enumerate(summary.columns):
            if column.task == wanted and column.direction != "none":
                yield summary, index


def _against(scores: Summary, costs: Summary, index: int) -> ScoreAgainstCost:
    rows = {(row.cell, row.encoder): row for row in costs.rows if row.status == "finished"}
    pairs: list[tuple[SummaryRow, tuple[Estimate, ...], float, float]] = []
    left = []
    for row in scores.rows:
        other = rows.get((row.cell, row.encoder))
        if other is None:
            continue
        score, cost = _mean(row.cells[-1]), _mean(other.cells[index])
        if score is None or cost is None:
            left.append(row.name)
        else:
            pairs.append((row, other.cells, score, cost))
    signs = 1 if costs.columns[index].lower else -1, -1 if scores.columns[-1].lower else 1
    front = pareto_front([signs[0] * one[3] for one in pairs], [signs[1] * one[2] for one in pairs])
    numbers = {place: number for number, place in enumerate(front, start=1)}
    points = (CostPoint(*one, numbers.get(place)) for place, one in enumerate(pairs))
    return ScoreAgainstCost(scores, costs, index, tuple(points), tuple(left))


def _mean(cell: Estimate) -> float | None:
    """Return a number that can be drawn, or None."""
    mean = cell.value
    return None if mean is None or not math.isfinite(mean) or cell.degenerate else mean


def title_of_both(against: ScoreAgainstCost) -> str:
    """Return a title that names the score and the cost."""
    scores = against.scores
    parts = [scores.evaluator]
    if scores.protocol not in ("", scores.evaluator):
        parts.append(scores.protocol)
    parts += [text for text in (scores.apart, against.costs.apart) if text]
    return f"{', '.join(parts)}: {scores.headings[-1]} against {against.column.task}"
