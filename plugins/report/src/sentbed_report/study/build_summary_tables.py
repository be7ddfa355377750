"""Construction of a study's tables from its scores (`summarise`)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import START, Score

from sentbed_report.formatting import cost_digits, count
from sentbed_report.score_protocols import evaluation_protocol
from sentbed_report.statistics.cell_scores import CellScores, Run, mean_over_tasks
from sentbed_report.study.comparable_scores import ComparableScores, comparable_scores
from sentbed_report.study.measurements import Measurement, measurements
from sentbed_report.study.places_and_ranks import add_places
from sentbed_report.study.published_number_comparison import with_published
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study.summary_row import RowKey, SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study.table_tests import add_tests
from sentbed_report.tables.column import AVERAGE, Column, heading_of
from sentbed_report.tables.estimate import Estimate

_SAME = 1e-6
"""Largest difference that is attributed to rounding between numbers read from files."""

_Scores: TypeAlias = dict[RowKey, CellScores]
"""Row -> its scores in a column."""


def summarise(
    data: StudyData,
    start: bool = False,
    all_pairs: bool = True,
) -> tuple[Summary, ...]:
    """Return the tables of a study: one per evaluator and protocol id, and one per further metric.

    Scores that were measured under another protocol are in a further table; both tables say which protocol
    entries differ. `start` adds rows of the encoders before training. A cell without a finished run has a row
    without values. Rows are tested against the baseline, and with `all_pairs` against each other.
    """
    measured = list(measurements(data))
    if not start:
        measured = _without_start(measured)

    tables = []
    for comparable in comparable_scores(measured):
        table = _table(data, comparable, all_pairs)
        add_places(table)
        tables.append(table)
    add_tests(data, tables)
    return with_published(data, tables)


def _without_start(measured: Sequence[Measurement]) -> list[Measurement]:
    """Return the scores after training; for a run that has none, the scores before training."""
    trained_runs = set()
    for measurement in measured:
        if not measurement.score.encoder.endswith(START):
            trained_runs.add(measurement.run)

    kept = []
    for measurement in measured:
        is_start = measurement.score.encoder.endswith(START)
        if not is_start or measurement.run not in trained_runs:
            kept.append(measurement)
    return kept


def _table(data: StudyData, comparable: ComparableScores, all_pairs: bool) -> Summary:
    """Return the table of comparable scores: columns, and rows with their means."""
    scores = _scores_of_columns(data, comparable)
    rows = _rows(data, scores)
    columns = _columns(comparable, list(scores), rows, data.baseline or "")
    key = comparable.key
    return Summary(
        study=data.name,
        evaluator=key.evaluator,
        protocol=key.protocol_id,
        metric=key.metric,
        note=_note(comparable, columns),
        apart=comparable.apart,
        columns=columns,
        rows=rows,
        baseline=data.baseline,
        ranked_within=data.ranks,
        development=key.is_development,
        prompts=data.prompts,
        all_pairs=all_pairs,
    )


def _scores_of_columns(
    data: StudyData, comparable: ComparableScores
) -> dict[str, _Scores]:
    """Return task -> row -> scores, with the average as the last task.

    The average is the one that the evaluator reports, if it reports one. Otherwise it is the mean over the
    tasks. There is no mean over a single task, and none if a column is a cost. If a run has two scores of a task,
    the first is used.
    """
    runs: defaultdict[tuple[str, RowKey], dict[Run, tuple[Score, ...]]]
    runs = defaultdict(dict)
    for measurement in comparable.measured:
        of_row = runs[measurement.score.task, measurement.row]
        of_row.setdefault(measurement.replicate, (measurement.score,))

    scores: dict[str, _Scores] = {}
    for task in comparable.tasks:
        scores[task] = {}

    for (task, row), of_runs in runs.items():
        scores[task][row] = _under_every_prompt(data, of_runs)

    average = scores.pop(AVERAGE, None)
    averaged = []
    for task, of_rows in scores.items():
        if comparable.tasks[task].axis != "cost":
            averaged.append(of_rows)
    means = _means(averaged)

    if average is not None:
        scores[AVERAGE] = _with_items(average, means)
    elif len(scores) > 1 and len(averaged) == len(scores):
        scores[AVERAGE] = means
    return scores


def _under_every_prompt(
    data: StudyData, of_runs: Mapping[Run, tuple[Score, ...]]
) -> CellScores:
    """Return the scores by seed, then by prompt. In a study with prompts, a seed needs one under every prompt."""
    if not data.prompts:
        return CellScores(of_runs)

    kept: dict[Run, tuple[Score, ...]] = {}
    for seed, _ in of_runs:
        of_prompts = {}
        for prompt in data.prompts:
            if (seed, prompt) in of_runs:
                of_prompts[seed, prompt] = of_runs[seed, prompt]
        if len(of_prompts) == len(data.prompts):
            kept |= of_prompts
    return CellScores(kept)


def _means(columns: Sequence[_Scores]) -> _Scores:
    """Return row -> mean over the columns."""
    rows: dict[RowKey, None] = {}
    for column in columns:
        rows |= dict.fromkeys(column)
    means = {}
    for row in rows:
        of_columns = [column.get(row, CellScores({})) for column in columns]
        means[row] = mean_over_tasks(of_columns)
    return means


def _with_items(averages: _Scores, means: _Scores) -> _Scores:
    """Return the averages that an evaluator reports, with the items of the tasks.

    If every reported average has no items and equals the mean of the columns, it is that mean, since a test over
    items needs the items of the columns.
    """
    for row, average in averages.items():
        mean = means.get(row, CellScores({}))
        for run, (score,) in average.of_runs.items():
            if score.items is not None or run not in mean.of_runs:
                return averages
            if not math.isclose(score.value, mean.value(run), abs_tol=_SAME):
                return averages
    return {row: means[row] for row in averages}


def _columns(
    comparable: ComparableScores,
    tasks: Sequence[str],
    rows: Sequence[SummaryRow],
    baseline: str,
) -> tuple[Column, ...]:
    """Return the columns with their headings and decimals.

    Costs may be far larger than the scores, so each column of costs has its own number of decimals.
    """
    columns = []
    values_of_scores = []
    for place, task in enumerate(tasks):
        numbers = []
        for row in rows:
            value = row.cells[place].value
            if value is not None:
                numbers.append(value)

        if task not in comparable.tasks:
            column = _column_of_mean(comparable)
        else:
            column = _column_of_task(comparable.tasks[task])

        if column.cost:
            column = attrs.evolve(column, digits=cost_digits(numbers))
        else:
            values_of_scores += numbers
        columns.append(column)

    digits = score_digits(values_of_scores)
    has_several_metrics = len(_metrics(columns)) > 1
    printed = []
    for column in columns:
        digits_of_column = column.digits
        if not column.cost:
            digits_of_column = digits
        heading = heading_of(column, has_several_metrics)
        printed.append(
            attrs.evolve(
                column, digits=digits_of_column, reference=baseline, heading=heading
            )
        )
    return tuple(printed)


def _column_of_task(score: Score) -> Column:
    """Return the column of a task, of which this is a score."""
    return Column(
        score.task,
        score.metric,
        evaluation_protocol(score),
        score.direction,
        cost=score.axis == "cost",
    )


def _column_of_mean(comparable: ComparableScores) -> Column:
    """Return the column of the mean over tasks; without direction if the tasks differ in their metrics."""
    tasks = comparable.tasks
    units = set()
    for score in tasks.values():
        units.add((score.metric, score.direction))

    missing = {*comparable.skipped, *comparable.tasks_of_key} - {AVERAGE}
    missing -= tasks.keys()
    part = ""
    if missing:
        part = f"{len(tasks)} of {len(tasks) + len(missing)}"

    if len(units) > 1:
        return Column(AVERAGE, "mean", part=part)
    ((metric, direction),) = units
    return Column(AVERAGE, metric, direction=direction, part=part)


def _metrics(columns: Iterable[Column]) -> list[str]:
    """Return the distinct metrics of the columns, without the average."""
    metrics: dict[str, None] = {}
    for column in columns:
        if not column.average:
            metrics[column.metric] = None
    return list(metrics)


def _note(comparable: ComparableScores, columns: Sequence[Column]) -> str:
    """Return a short description of a table: its evaluator, metrics, protocols, and what it lacks."""
    protocols: dict[str, None] = {}
    for measurement in comparable.measured:
        protocols[measurement.score.protocol_name] = None
    metrics = ", ".join(_metrics(columns))
    parts = [comparable.key.evaluator, metrics, ", ".join(protocols)]
    if comparable.key.is_development:
        parts.append("development data")
    if comparable.skipped:
        parts.append(f"without {', '.join(comparable.skipped)}, whose data is missing")
    if comparable.apart:
        parts.append(f"unlike other tables in {comparable.apart}")
    return "; ".join(parts)


def _rows(data: StudyData, scores: Mapping[str, _Scores]) -> tuple[SummaryRow, ...]:
    """Return the rows of the table in the order of the cells."""
    encoders: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for of_column in scores.values():
        for cell_name, encoder in of_column:
            encoders[cell_name][encoder] = None

    rows = []
    for cell in data.cells:
        encoders_of_cell = list(encoders[cell.name])
        has_finished = any(run.status == "finished" for run in cell.runs)
        # If a run has finished without a score in this table, the cell's other runs will have none here, either.
        if has_finished and not encoders_of_cell:
            continue
        for encoder in encoders_of_cell or [""]:
            name = cell.name
            if len(encoders_of_cell) > 1:
                name = f"{cell.name}/{encoder}"
            rows.append(_row(cell, encoder, name, scores))

    finished = [row for row in rows if row.status == "finished"]
    if len({len(row.scored) for row in finished}) > 1:
        for row in finished:
            row.remark = count(len(row.scored), "seed")
    return tuple(rows)


def _row(
    cell: CellInfo, encoder: str, name: str, scores: Mapping[str, _Scores]
) -> SummaryRow:
    """Return the row of a cell's encoder, with the cell's first error."""
    cells = []
    for of_column in scores.values():
        estimate = Estimate()
        if (cell.name, encoder) in of_column:
            estimate = Estimate.of_scores(of_column[cell.name, encoder])
        cells.append(estimate)

    remark = ""
    if cell.status != "finished":
        remark = cell.status
        if cell.finished_seeds:
            remark += f", {len(cell.finished_seeds)} of {len(cell.seeds)}"
    errors = [run.error for run in cell.runs if run.error]
    return SummaryRow(
        cell=cell.name,
        encoder=encoder,
        name=name,
        labels=cell.labels,
        status=cell.status,
        error="".join(errors[:1]),
        cells=tuple(cells),
        remark=remark,
    )
