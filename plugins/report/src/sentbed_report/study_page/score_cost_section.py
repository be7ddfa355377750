"""Section on the scores of a study's cells against their costs, with the Pareto front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from sentbed_report.figures.study_figures import KINDS, plots_of
from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.score_against_cost import (
    ScoreAgainstCost,
    scores_against_cost,
    title_of_both,
    unknown_cost,
)
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate, Place
from sentbed_report.tables.table import Table


def score_cost_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section.

    It is None if no cells have scores and costs, unless the study names a cost that was not measured: the
    section then says so.
    """
    against = scores_against_cost(summaries, data.cost)
    unknown = unknown_cost(summaries, data.cost)
    if not against and not unknown:
        return None

    line = ""
    if against:
        first = against[0]
        front = [point.row.name for point in first.points if point.front]
        score = first.scores.columns[-1].heading
        line = (
            f"{len(front)} of {len(first.points)} cells are on the Pareto front of "
            f"{score} against {first.column.task}"
        )
    return Section(
        "Score against cost",
        line,
        [*filter(None, [unknown])],
        [*map(_table, against)],
        plots=plots_of(KINDS["cost"], data, summaries),
    )


def _table(against: ScoreAgainstCost) -> Table:
    """Return a table of scores and costs. The first cost is the one that the figure shows."""
    scores, costs = against.scores, against.costs
    order = sorted(range(len(costs.columns)), key=lambda index: index != against.index)
    columns = [Column("front", form="count"), scores.columns[-1]]
    for index in order:
        # Headings have no units, since there are many columns; the table of costs has the units.
        column = costs.columns[index]
        columns.append(attrs.evolve(column, heading=column.task))

    rows = []
    for point in against.points:
        place: Place | None = 1 if point.front else None
        score = Estimate(value=point.score, place=place)
        costs_of_point = [point.costs[index].value for index in order]
        rows.append((point.row, point.front, score, *costs_of_point))
    return table_of(title_of_both(against), ["cell"], columns, rows, _notes(against))


def _notes(against: ScoreAgainstCost) -> Iterator[str]:
    score, cost = against.scores.columns[-1], against.column
    yield (
        f"Numbered and bold: the Pareto front. No other cell is as good in {score.heading} "
        f"({score.direction} is better) and in {cost.task} ({cost.direction} is better), and better in one of "
        "them. Means are over seeds; whether a difference is more than chance is not tested here."
    )
    if against.left:
        yield f"Without a point, since a number is missing or degenerate: {'; '.join(against.left)}."
