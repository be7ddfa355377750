"""Columns of a study's table: the scores of each row in each task, their average, and their means."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs
from sentbed.protocols import Direction, Score

from sentbed_report.score_protocols import evaluation_protocol
from sentbed_report.statistics.item_components import (
    PromptScores,
    parts_of,
)
from sentbed_report.statistics.significance import (
    Scored,
    ScoreOfSeed,
    average_column,
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
    scores: Mapping[RowKey, Scored]
    tested: Mapping[RowKey, Scored] = attrs.field()
    """Scores to be tested; empty for a cost, and for an average over several metrics."""
    estimates: Mapping[RowKey, Estimate] = attrs.field()
    """Estimate of each row in this column."""

    @tested.default
    def _scores_but_costs(self) -> Mapping[RowKey, Scored]:
        if self.column.cost:
            return {}
        return self.scores

    @estimates.default
    def _means_over_seeds(self) -> Mapping[RowKey, Estimate]:
        estimates = {}
        for row, scores in self.scores.items():
            values = {seed: score.value for seed, score in scores.items()}
            estimates[row] = Estimate(values, degenerate=_degenerate_reasons(scores))
        return estimates


def _degenerate_reasons(scores: Scored) -> str:
    """Return why scores of a row say nothing about their encoder; empty if none is degenerate."""
    reasons: dict[str, None] = {}
    for score in scores.values():
        for part in parts_of(score):
            reasons[part.degenerate] = None
    return "; ".join(filter(None, reasons))


def scored_columns(data: StudyData, comparable: ComparableScores) -> list[ScoredColumn]:
    """Return the columns: the tasks in their order, then their average.

    The average is the one that the evaluator reports, if it reports one. Otherwise it is the mean over the
    tasks. There is no mean over a single task, and none if a column is a cost.
    """
    averaged = []
    columns = []
    for task in comparable.protocols:
        if task != AVERAGE:
            scored, scores = _column_and_scores(data, comparable, task)
            columns.append(scored)
            if not scored.column.cost:
                averaged.append(scores)

    if AVERAGE in comparable.protocols:
        average, scores = _column_and_scores(data, comparable, AVERAGE)
        if averaged and not average.column.cost:
            average = attrs.evolve(average, tested=average_column(averaged, scores))
        columns.append(average)
    elif len(columns) > 1 and len(averaged) == len(columns):
        columns.append(_average(comparable, columns, average_column(averaged, {})))

    return columns


def row_key(measurement: Measurement) -> RowKey:
    """Return the key of the row in which a score is."""
    return measurement.cell.name, measurement.score.encoder


def _column_and_scores(
    data: StudyData,
    comparable: ComparableScores,
    task: str,
) -> tuple[ScoredColumn, dict[RowKey, dict[int, ScoreOfSeed]]]:
    """Return the column of a task and its scores; if a run has two scores of the task, the first is used."""
    scores_of_task = []
    directions = set()
    scores_of_runs: dict[RowKey, dict[int, dict[str, Score]]] = {}
    for measurement in comparable.measured:
        score = measurement.score
        if score.task != task:
            continue
        scores_of_task.append(score)
        directions.add(score.direction)
        of_row = scores_of_runs.setdefault(row_key(measurement), {})
        of_seed = of_row.setdefault(measurement.run.seed, {})
        of_seed.setdefault(measurement.run.prompt, score)

    scores = {}
    for row, of_row in scores_of_runs.items():
        scores[row] = _by_seed(data, of_row)
    first = scores_of_task[0]
    column = Column(
        task,
        first.metric,
        evaluation_protocol(first),
        _common_direction(directions),
        cost=any(score.axis == "cost" for score in scores_of_task),
    )
    return ScoredColumn(column, scores), scores


def _by_seed(
    data: StudyData, scores: Mapping[int, Mapping[str, Score]]
) -> dict[int, ScoreOfSeed]:
    """Return seed -> score. In a study with prompts, a seed needs a score under every prompt."""
    by_seed: dict[int, ScoreOfSeed] = {}
    are_sample = data.prompt_factor == "random"
    for seed, of_seed in scores.items():
        if not data.prompts:
            by_seed[seed] = of_seed[""]
            continue
        if of_seed.keys() >= set(data.prompts):
            in_order = {prompt: of_seed[prompt] for prompt in data.prompts}
            by_seed[seed] = PromptScores(in_order, are_sample)
    return by_seed


def _average(
    comparable: ComparableScores,
    columns: Sequence[ScoredColumn],
    means: Mapping[RowKey, Scored],
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
    tested: dict[RowKey, Scored] = {}
    for row, scores in scored.tested.items():
        tested[row] = dict(enumerate(scores.values()))
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
