"""Columns of a study's table: the scores of each row in each task, their average, and their means."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import attrs
from sentbed.protocols import Direction, Score

from sentbed_report.score_protocols import evaluation_protocol
from sentbed_report.statistics.cell_scores import (
    CellScores,
    Run,
    is_mean,
    mean_over_tasks,
)
from sentbed_report.study.comparable_scores import ComparableScores
from sentbed_report.study.measurements import Measurement
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_row import RowKey
from sentbed_report.tables.column import AVERAGE, Column
from sentbed_report.tables.estimate import Estimate


@attrs.frozen
class ScoredColumn:
    """A column with the scores and estimates of each row that has any."""

    column: Column
    scores: Mapping[RowKey, CellScores]
    tested: Mapping[RowKey, CellScores] = attrs.field()
    """Scores to be tested; empty for a cost, and for an average over several metrics."""
    estimates: Mapping[RowKey, Estimate] = attrs.field()
    """Estimate of each row in this column."""

    @tested.default
    def _scores_but_costs(self) -> Mapping[RowKey, CellScores]:
        if self.column.cost:
            return {}
        return self.scores

    @estimates.default
    def _means_over_seeds(self) -> Mapping[RowKey, Estimate]:
        estimates = {}
        for row, scores in self.scores.items():
            estimates[row] = Estimate(scores.by_seed, degenerate=scores.degenerate)
        return estimates


def scored_columns(data: StudyData, comparable: ComparableScores) -> list[ScoredColumn]:
    """Return the columns: the tasks in their order, then their average.

    The average is the one that the evaluator reports, if it reports one. Otherwise it is the mean over the
    tasks. There is no mean over a single task, and none if a column is a cost.
    """
    averaged = []
    columns = []
    for task in comparable.protocols:
        if task != AVERAGE:
            scored = _column_of_task(data, comparable, task)
            columns.append(scored)
            if not scored.column.cost:
                averaged.append(scored.scores)

    if AVERAGE in comparable.protocols:
        average = _column_of_task(data, comparable, AVERAGE)
        if averaged and not average.column.cost:
            tested = _tested_average(averaged, average.scores)
            average = attrs.evolve(average, tested=tested)
        columns.append(average)
    elif len(columns) > 1 and len(averaged) == len(columns):
        columns.append(_average(comparable, columns, _means(averaged)))

    return columns


def row_key(measurement: Measurement) -> RowKey:
    """Return the key of the row in which a score is."""
    return measurement.cell.name, measurement.score.encoder


def _column_of_task(
    data: StudyData,
    comparable: ComparableScores,
    task: str,
) -> ScoredColumn:
    """Return the column of a task; if a run has two scores of the task, the first is used."""
    scores_of_task = []
    directions = set()
    scores_of_runs: dict[RowKey, dict[Run, tuple[Score, ...]]] = {}
    for measurement in comparable.measured:
        score = measurement.score
        if score.task != task:
            continue
        scores_of_task.append(score)
        directions.add(score.direction)
        of_row = scores_of_runs.setdefault(row_key(measurement), {})
        run = (measurement.run.seed, measurement.run.prompt)
        of_row.setdefault(run, (score,))

    scores = {}
    for row, of_runs in scores_of_runs.items():
        scores[row] = _under_every_prompt(data, of_runs)
    first = scores_of_task[0]
    column = Column(
        task,
        first.metric,
        evaluation_protocol(first),
        _common_direction(directions),
        cost=any(score.axis == "cost" for score in scores_of_task),
    )
    return ScoredColumn(column, scores)


def _under_every_prompt(
    data: StudyData, of_runs: Mapping[Run, tuple[Score, ...]]
) -> CellScores:
    """Return the scores by seed, then by prompt. In a study with prompts, a seed needs one under every prompt."""
    kept = {}
    for seed in dict.fromkeys(seed for seed, _ in of_runs):
        runs = [(seed, prompt) for prompt in data.prompts or ("",)]
        if all(run in of_runs for run in runs):
            for run in runs:
                kept[run] = of_runs[run]
    return CellScores(kept)


def _means(
    columns: Sequence[Mapping[RowKey, CellScores]],
) -> dict[RowKey, CellScores]:
    """Return row -> mean over the columns."""
    means = {}
    for row in dict.fromkeys(chain.from_iterable(columns)):
        of_columns = [column.get(row, CellScores({})) for column in columns]
        means[row] = mean_over_tasks(of_columns)
    return means


def _tested_average(
    columns: Sequence[Mapping[RowKey, CellScores]],
    averages: Mapping[RowKey, CellScores],
) -> Mapping[RowKey, CellScores]:
    """Return the scores by which averages that the evaluator reports are tested.

    If every reported average has no items and equals the mean of the columns, the means are tested in its place,
    since a test over items needs the items of the columns.
    """
    means = _means(columns)
    for row, average in averages.items():
        if row not in means or not is_mean(average, means[row]):
            return averages
    return {row: means[row] for row in averages}


def _average(
    comparable: ComparableScores,
    columns: Sequence[ScoredColumn],
    means: Mapping[RowKey, CellScores],
) -> ScoredColumn:
    """Return the column of the mean over tasks.

    If the tasks differ in their metrics, the column has no direction (neither higher nor lower is better) and
    no tests.
    """
    metrics = set()
    directions = set()
    for scored in columns:
        metrics.add(scored.column.metric)
        directions.add(scored.column.direction)

    missing = {*skipped_tasks(comparable), *comparable.tasks_elsewhere}
    missing -= comparable.protocols.keys()
    part = ""
    if missing:
        part = f"{len(columns)} of {len(columns) + len(missing)}"

    if len(metrics) > 1:
        return ScoredColumn(Column(AVERAGE, "mean", part=part), means, tested={})
    direction = _common_direction(directions)
    column = Column(AVERAGE, metrics.pop(), direction=direction, part=part)
    return ScoredColumn(column, means)


def under_one_seed(scored: ScoredColumn) -> ScoredColumn:
    """Return the column of cells with one run each, as if every run had the seed 0.

    The tests pair runs by their seeds, so they then pair runs that had different seeds.
    """
    tested = {}
    for row, scores in scored.tested.items():
        of_runs = {}
        for seed, of_run in enumerate(scores.of_runs.values()):
            of_runs[seed, ""] = of_run
        tested[row] = CellScores(of_runs)
    return attrs.evolve(scored, tested=tested)


def _common_direction(directions: Collection[Direction]) -> Direction:
    """Return the common direction; `none` if the directions differ."""
    if len(directions) > 1:
        return "none"
    (direction,) = directions
    return direction


def skipped_tasks(comparable: ComparableScores) -> list[str]:
    """Return the tasks that are not in the table because an evaluator skipped them for lack of data."""
    skipped: dict[str, None] = {}
    for measurement in comparable.measured:
        for task in measurement.score.skipped:
            if task not in comparable.protocols:
                skipped[task] = None
    return list(skipped)
