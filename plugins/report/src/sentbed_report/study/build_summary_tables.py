"""Construction of a study's tables from its scores (`summarise`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import START

from sentbed_report.formatting import cost_digits
from sentbed_report.study.comparable_scores import ComparableScores, comparable_scores
from sentbed_report.study.measurements import Measurement, measurements
from sentbed_report.study.places_and_ranks import ranked_rows, with_marks
from sentbed_report.study.published_number_comparison import with_published
from sentbed_report.study.rank_groups import why_not_ranked
from sentbed_report.study.scored_columns import (
    ScoredColumn,
    row_key,
    scored_columns,
    skipped_tasks,
    under_one_seed,
)
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study.summary_row import RowKey, SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study.table_tests import (
    rows_of_baseline,
    tests_of_columns,
    with_corrections,
)
from sentbed_report.tables.column import Column, heading_of
from sentbed_report.tables.estimate import Estimate


def summarise(
    data: StudyData,
    start: bool = False,
) -> tuple[Summary, ...]:
    """Return the tables of a study: one per evaluator and protocol id, and one per further metric.

    Scores that were measured under another protocol are in a further table; both tables say which protocol
    entries differ. `start` adds rows of the encoders before training. A cell without a finished run has a row
    without values.
    """
    measured = list(measurements(data))
    if not start:
        measured = _without_start(measured)

    summaries = []
    for comparable in comparable_scores(measured):
        summaries.append(_summary(data, comparable))
    summaries = with_corrections(data, summaries)
    return with_published(data, summaries)


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


def _summary(
    data: StudyData,
    comparable: ComparableScores,
) -> Summary:
    """Return the table of comparable scores; p-values are not corrected yet."""
    unmarked = scored_columns(data, comparable)
    # Runs that were not started as a study may have any seeds; two such runs are compared all the same.
    pairs_seeds = bool(data.axes) or any(len(cell.runs) != 1 for cell in data.cells)
    if not pairs_seeds:
        unmarked = list(map(under_one_seed, unmarked))

    # Costs may be far larger than the scores, so each column of costs has its own number of decimals.
    scores = [scored for scored in unmarked if not scored.column.cost]
    digits = score_digits(_values(scores))
    keys = list(dict.fromkeys(map(row_key, comparable.measured)))
    ranked = ranked_rows(data, keys)
    references = rows_of_baseline(data, unmarked)
    columns = []
    for scored in unmarked:
        columns.append(with_marks(data, scored, ranked, digits))
    rows = _rows(data, columns, keys)
    key = comparable.key
    compared_rows = []
    if columns[-1].column.ranked and not key.metric:
        for row in rows:
            if row.cells[-1].value is not None and not why_not_ranked(row):
                compared_rows.append(row)

    return Summary(
        study=data.name,
        evaluator=key.evaluator,
        protocol=key.protocol_id,
        metric=key.metric,
        note=_note(comparable, columns),
        apart=comparable.apart,
        columns=_printed_columns(columns, digits, data.baseline or ""),
        rows=rows,
        baseline=data.baseline,
        seeds=_scored_seeds(data, rows),
        pairs_seeds=pairs_seeds,
        ranked_within=data.ranks,
        family=data.family,
        development=key.is_development,
        measured=tuple(scored.scores for scored in columns),
        tested=columns[-1].tested,
        compared_with=references,
        tests=tests_of_columns(data, columns, references, compared_rows),
        prompts=data.prompts,
        random=data.random,
    )


def _scored_seeds(data: StudyData, rows: Sequence[SummaryRow]) -> tuple[int, ...]:
    """Return the seeds under which any row has a score, in the study's order."""
    scored: set[int] = set()
    for row in rows:
        scored.update(row.scored)
    return tuple(seed for seed in data.seeds if seed in scored)


def _note(comparable: ComparableScores, columns: Sequence[ScoredColumn]) -> str:
    """Return a short description of a table: its evaluator, metrics, protocols, and what it lacks."""
    protocols: dict[str, None] = {}
    for measurement in comparable.measured:
        protocols[measurement.score.protocol_name] = None
    metrics = _metrics_of_tasks(columns)
    parts = [comparable.key.evaluator, ", ".join(metrics), ", ".join(protocols)]
    if comparable.key.is_development:
        parts.append("development data")
    skipped = skipped_tasks(comparable)
    if skipped:
        parts.append(f"without {', '.join(skipped)}, whose data is missing")
    if comparable.apart:
        parts.append(f"unlike other tables in {comparable.apart}")
    return "; ".join(parts)


def _metrics_of_tasks(columns: Sequence[ScoredColumn]) -> list[str]:
    """Return the distinct metrics of the columns, without the average."""
    metrics: dict[str, None] = {}
    for scored in columns:
        if not scored.column.average:
            metrics[scored.column.metric] = None
    return list(metrics)


def _printed_columns(
    columns: Sequence[ScoredColumn],
    digits: int,
    baseline: str,
) -> tuple[Column, ...]:
    """Return the columns with their headings and decimals."""
    has_several_metrics = len(_metrics_of_tasks(columns)) > 1
    printed = []
    for scored in columns:
        digits_of_column = digits
        if scored.column.cost:
            digits_of_column = cost_digits(_values([scored]))
        printed.append(
            attrs.evolve(
                scored.column,
                digits=digits_of_column,
                reference=baseline,
                heading=heading_of(scored.column, has_several_metrics),
            )
        )
    return tuple(printed)


def _rows(
    data: StudyData,
    columns: Sequence[ScoredColumn],
    keys: Sequence[RowKey],
) -> tuple[SummaryRow, ...]:
    """Return the rows of the table in the order of the cells; `keys` identify the rows that have scores."""
    encoders: defaultdict[str, list[str]] = defaultdict(list)
    for cell_name, encoder in keys:
        encoders[cell_name].append(encoder)

    rows = []
    for cell in data.cells:
        encoders_of_cell = encoders[cell.name]
        has_finished = any(run.status == "finished" for run in cell.runs)
        # If a run has finished without a score in this table, the cell's other runs will have none here, either.
        if has_finished and not encoders_of_cell:
            continue
        for encoder in encoders_of_cell or [""]:
            name = cell.name
            if len(encoders_of_cell) > 1:
                name = f"{cell.name}/{encoder}"
            rows.append(_row(cell, encoder, name, columns))

    numbers_of_seeds = set()
    for row in rows:
        if row.status == "finished":
            numbers_of_seeds.add(len(row.scored))
    if len(numbers_of_seeds) > 1:
        rows = [attrs.evolve(row, counted=True) for row in rows]
    return tuple(rows)


def _row(
    cell: CellInfo,
    encoder: str,
    name: str,
    columns: Sequence[ScoredColumn],
) -> SummaryRow:
    """Return the row of a cell's encoder, with the cell's first error."""
    key = (cell.name, encoder)
    estimates = []
    for scored in columns:
        estimates.append(scored.estimates.get(key, Estimate()))
    errors = [run.error for run in cell.runs if run.error]
    return SummaryRow(
        cell=cell.name,
        encoder=encoder,
        name=name,
        labels=cell.labels,
        status=cell.status,
        seeds=cell.finished_seeds,
        total=len(cell.seeds),
        error="".join(errors[:1]),
        cells=tuple(estimates),
    )


def _values(columns: Sequence[ScoredColumn]) -> list[float]:
    """Return all numbers in the columns, without rows that have none."""
    values = []
    for scored in columns:
        for estimate in scored.estimates.values():
            if estimate.value is not None:
                values.append(estimate.value)
    return values
