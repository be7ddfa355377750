"""Building of a study's tables from its scores."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import START, Direction, Score

from sentbed_report.comparability import evaluation_protocol
from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.formatting import cost_digits
from sentbed_report.statistics.item_components import ComponentStore
from sentbed_report.statistics.significance import (
    RESAMPLES,
    Judged,
    Scored,
    TableScores,
    average_column,
    corrected,
    judge_column,
)
from sentbed_report.study.comparable_scores import ComparableScores, comparable_scores
from sentbed_report.study.equivalence import equivalences
from sentbed_report.study.measurements import Measurement, measurements
from sentbed_report.study.published_number_comparison import with_published
from sentbed_report.study.study_data import CellInfo, CellStatus, StudyData
from sentbed_report.study.summary_row import RowKey, SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import AVERAGE, Column, heading_of
from sentbed_report.tables.estimate import MEAN_DECIMALS, Estimate, Place

_WORST: tuple[CellStatus, ...] = ("failed", "interrupted", "running", "waiting")


def summarise(data: StudyData, start: bool = False, resamples: int = RESAMPLES) -> tuple[Summary, ...]:
    """Return the tables of a study: one per evaluator, protocol id and, for further metrics, metric.

    Cells whose scores are of unlike protocol make further tables, whose notes name the entries. `start` adds
    encoders as they were before training. A cell that has not finished has a row without values.
    """
    measured = measurements(data)
    if not start:
        measured = iter(_without_start(list(measured)))
    summaries = [_summary(data, scores, resamples) for scores in comparable_scores(measured)]
    if data.family == "study":
        summaries = _corrected_together(summaries, data.looks)
    return tuple(_with_equivalence(summary) for summary in with_published(data, summaries))


def _without_start(measured: Sequence[Measurement]) -> list[Measurement]:
    """Return the scores after training, and those before it of runs that have no others."""
    trained = {
        id(measurement.run) for measurement in measured if not measurement.score.encoder.endswith(START)
    }
    return [
        measurement
        for measurement in measured
        if not measurement.score.encoder.endswith(START) or id(measurement.run) not in trained
    ]


@attrs.define
class _ColumnScores:
    """Scores of one column: row -> seed -> its score, or its number where an average has no score."""

    column: Column
    values: dict[RowKey, dict[int, float]] = attrs.field(factory=dict)
    scores: dict[RowKey, dict[int, Score]] = attrs.field(factory=dict)
    degenerate: dict[RowKey, dict[int, str]] = attrs.field(factory=dict)
    """Why a number says nothing about its encoder; only where it does not."""

    def reason(self, row: RowKey) -> str:
        """Return why the seeds of a row are degenerate, and which ones, if not all."""
        reasons = self.degenerate.get(row, {})
        if not reasons:
            return ""
        text = "; ".join(dict.fromkeys(reasons.values()))
        if len(reasons) == len(self.values[row]):
            return text
        return f"{text} (seed {', '.join(map(str, reasons))})"

    def means(self, rows: Iterable[RowKey]) -> dict[RowKey, float]:
        """Return the mean of each row that has one and is not degenerate."""
        means = {}
        for row in rows:
            value = Estimate(self.values.get(row, {})).value
            if value is not None and math.isfinite(value) and row not in self.degenerate:
                means[row] = value
        return means


def _summary(data: StudyData, comparable: ComparableScores, resamples: int) -> Summary:
    columns = [_column_scores(comparable, task) for task in comparable.protocols if task != AVERAGE]
    skipped = _skipped_tasks(comparable)
    if AVERAGE in comparable.protocols:
        columns.append(_column_scores(comparable, AVERAGE))
    elif len(columns) > 1 and not any(scores.column.cost for scores in columns):
        part = f"{len(columns)} of {len(columns) + len(skipped)}" if skipped else ""
        columns.append(_average(columns, part))
    columns.sort(key=lambda scores: _order(scores.column.task, data.order))
    keys = list(dict.fromkeys(_row_key(measurement) for measurement in comparable.measured))
    rows = _rows(data, columns, keys)

    # Only arbitrary runs have no axes.
    single = not data.axes and all(len(cell.runs) == 1 for cell in data.cells)
    components = ComponentStore(resamples)
    tested = _tested_columns(columns)
    rows = _with_comparisons(rows, _judged(data, columns, tested, components, single))

    scored = {seed for row in rows for seed in row.scored}
    counts = {len(row.scored) for row in rows if row.status == "finished"}
    seeds = dict.fromkeys([*data.seeds, *(run.seed for cell in data.cells for run in cell.runs)])
    note = _note(comparable, columns, skipped)
    return Summary(
        data.name,
        comparable.evaluator,
        comparable.protocol_id,
        comparable.metric,
        f"{note}; unlike other tables in {comparable.apart}" if comparable.apart else note,
        comparable.apart,
        _printed_columns(columns, rows, data.baseline or ""),
        tuple(attrs.evolve(row, counted=len(counts) > 1) for row in rows),
        data.baseline,
        resamples,
        tuple(seed for seed in seeds if seed in scored),
        ranks=data.ranks,
        looks=data.looks,
        equivalence=data.equivalence,
        family=data.family,
        development=comparable.is_development,
        scores=_table_scores(tested[-1], components, single),
        has_groups=data.groups,
    )


# --- columns -----------------------------------------------------------------------------------------------


def _row_key(measurement: Measurement) -> RowKey:
    return measurement.cell.name, measurement.score.encoder


def _column_scores(comparable: ComparableScores, task: str) -> _ColumnScores:
    """Return the scores of a task; of one that is there twice the first counts."""
    measured = [measurement for measurement in comparable.measured if measurement.score.task == task]
    protocol = evaluation_protocol(measured[0].score)
    directions = {measurement.score.direction for measurement in measured}
    cost = any(measurement.score.axis == "cost" for measurement in measured)
    column = Column(task, measured[0].score.metric, protocol, _shared(directions), cost=cost)
    scores = _ColumnScores(column)
    for measurement in measured:
        row, seed, score = _row_key(measurement), measurement.run.seed, measurement.score
        if seed in scores.values.setdefault(row, {}):
            continue
        scores.values[row][seed] = score.value
        scores.scores.setdefault(row, {})[seed] = score
        reason = degenerate_of(score)
        if reason:
            scores.degenerate.setdefault(row, {})[seed] = reason
    return scores


def _average(columns: Sequence[_ColumnScores], part: str) -> _ColumnScores:
    """Return the average of tasks under each seed; no row is the best of it if their metrics are unlike."""
    metrics = {scores.column.metric for scores in columns}
    column = Column(AVERAGE, "mean", part=part)
    if len(metrics) == 1:
        directions = {scores.column.direction for scores in columns}
        column = Column(AVERAGE, columns[0].column.metric, direction=_shared(directions), part=part)
    average = _ColumnScores(column)
    for row, of_row in columns[0].values.items():
        for seed in of_row:
            numbers = [scores.values.get(row, {}).get(seed) for scores in columns]
            known = [number for number in numbers if number is not None]
            if len(known) < len(numbers):
                continue
            average.values.setdefault(row, {})[seed] = sum(known) / len(known)
            tasks = [scores.column.task for scores in columns if seed in scores.degenerate.get(row, {})]
            if tasks:
                reason = f"it includes {', '.join(tasks)}, where the score is degenerate"
                average.degenerate.setdefault(row, {})[seed] = reason
    return average


def _shared(directions: Collection[Direction]) -> Direction:
    """Return the common direction, or `none` if they differ."""
    return next(iter(directions)) if len(directions) == 1 else "none"


def _skipped_tasks(comparable: ComparableScores) -> list[str]:
    """Return the tasks that no row has, as they were left out for want of data."""
    skipped = dict.fromkeys(task for measurement in comparable.measured for task in measurement.score.skipped)
    return [task for task in skipped if task not in comparable.protocols]


def _order(task: str, order: Sequence[str]) -> int:
    """Return the place of a task: as the study lists them, then others, then the average."""
    if task == AVERAGE:
        return len(order) + 1
    return order.index(task) if task in order else len(order)


def _note(comparable: ComparableScores, columns: Sequence[_ColumnScores], skipped: Sequence[str]) -> str:
    """Return evaluator, metrics and protocols of a table in a few words, and which tasks have no data."""
    own_columns = [scores.column for scores in columns if not scores.column.average]
    metrics = dict.fromkeys(column.metric for column in own_columns)
    protocols = dict.fromkeys(measurement.score.protocol_name for measurement in comparable.measured)
    parts = [comparable.evaluator, ", ".join(metrics), ", ".join(protocols)]
    if comparable.is_development:
        parts.append("development data")
    if skipped:
        parts.append(f"without {', '.join(skipped)}, whose data is missing")
    return "; ".join(parts)


def _printed_columns(
    columns: Sequence[_ColumnScores], rows: Sequence[SummaryRow], baseline: str
) -> tuple[Column, ...]:
    """Return the columns with their headings and decimals."""
    metrics = {scores.column.metric for scores in columns if not scores.column.average}
    digits = score_digits(cell.value for row in rows for cell in row.cells if cell.value is not None)
    printed = []
    for place, scores in enumerate(columns):
        column = attrs.evolve(scores.column, digits=digits, reference=baseline)
        if column.cost:
            values = [row.cells[place].value for row in rows]
            column = attrs.evolve(column, digits=cost_digits(value for value in values if value is not None))
        printed.append(attrs.evolve(column, heading=heading_of(column, len(metrics) > 1)))
    return tuple(printed)


# --- rows --------------------------------------------------------------------------------------------------


def _rows(data: StudyData, columns: Sequence[_ColumnScores], keys: Sequence[RowKey]) -> list[SummaryRow]:
    """Return the rows in the order of the cells, with places and ranks."""
    unfinished = {cell.name for cell in data.cells if any(run.status != "finished" for run in cell.runs)}
    # Means of stopped cells lack the later seeds, which may be bad for all cells.
    stopped = data.stopped
    unranked = unfinished | stopped
    ranked = [key for key in keys if key[0] not in unranked]
    values = [Estimate(of_row).value for scores in columns for of_row in scores.values.values()]
    digits = score_digits(value for value in values if value is not None)
    places = [_places(scores.column, scores.means(ranked), digits) for scores in columns]
    ranks = [_ranks(data, scores, ranked) for scores in columns]
    rows = []
    for cell in data.cells:
        of_cell = [key for key in keys if key[0] == cell.name]
        # If one seed has no score here, the others will have none, either.
        if not of_cell and any(run.status == "finished" for run in cell.runs):
            continue
        for key in of_cell or [(cell.name, "")]:
            estimates = tuple(
                Estimate(
                    scores.values.get(key, {}),
                    place=places[index].get(key),
                    rank=ranks[index].get(key),
                    degenerate=scores.reason(key),
                )
                for index, scores in enumerate(columns)
            )
            rows.append(_row(cell, key[1], len(of_cell) > 1, estimates, cell.name in stopped))
    return rows


def _row(
    cell: CellInfo, encoder: str, several: bool, cells: tuple[Estimate, ...], stopped: bool
) -> SummaryRow:
    statuses = {run.status for run in cell.runs}
    return SummaryRow(
        cell.name,
        encoder,
        f"{cell.name}/{encoder}" if several else cell.name,
        cell.labels,
        next((status for status in _WORST if status in statuses), "finished"),
        tuple(run.seed for run in cell.runs if run.status == "finished"),
        len(cell.runs),
        next((run.error for run in cell.runs if run.error), ""),
        cells,
        stopped=stopped,
    )


def _places(column: Column, means: Mapping[RowKey, float], digits: int) -> dict[RowKey, Place]:
    """Return which rows are the best and the second best, as printed; equal numbers share a place."""
    printed = {row: round(mean, digits) for row, mean in means.items()}
    distinct = sorted(set(printed.values()), reverse=column.direction == "higher")
    if len(distinct) < 2 or not column.ranked:
        return {}
    numbers: dict[float, Place] = {distinct[0]: 1, distinct[1]: 2}
    return {row: numbers[value] for row, value in printed.items() if value in numbers}


def _ranks(data: StudyData, scores: _ColumnScores, rows: Sequence[RowKey]) -> dict[RowKey, int]:
    """Return the rank of each row, among the rows with its labels on the axes of `ranks`.

    Means are compared before rounding for print; equal ones have the same rank, the least.
    """
    if data.ranks is None or not scores.column.ranked:
        return {}
    labels = {cell.name: tuple(cell.labels[axis] for axis in data.ranks) for cell in data.cells}
    sign = -1 if scores.column.direction == "higher" else 1
    groups: dict[tuple[str, ...], dict[RowKey, float]] = {}
    for row, mean in scores.means(rows).items():
        groups.setdefault(labels[row[0]], {})[row] = sign * round(mean, MEAN_DECIMALS)
    ranks = {}
    for group in groups.values():
        ordered = sorted(group.values())
        for row, worth in group.items():
            ranks[row] = 1 + bisect_left(ordered, worth)
    return ranks


# --- comparisons -------------------------------------------------------------------------------------------


def _tested_columns(columns: Sequence[_ColumnScores]) -> list[dict[RowKey, Scored]]:
    """Return row -> seed -> score of each column; none of costs, and none of an average of unlike metrics."""
    tasks = [scores for scores in columns if not scores.column.cost and not scores.column.average]
    metrics = {scores.column.metric for scores in tasks}
    tested: list[dict[RowKey, Scored]] = []
    for scores in columns:
        if scores.column.cost:
            tested.append({})
        elif scores.column.average and tasks:
            is_tested = bool(scores.scores) or len(metrics) == 1
            of_tasks = [_with_all_rows(task.scores, tasks) for task in tasks]
            tested.append(average_column(of_tasks, scores.scores) if is_tested else {})
        else:
            tested.append({**scores.scores})
    return tested


def _with_all_rows(
    scores: Mapping[RowKey, Mapping[int, Score]], columns: Sequence[_ColumnScores]
) -> dict[RowKey, Mapping[int, Score]]:
    """Return the scores of a column with a place for every row that any column has."""
    rows = dict.fromkeys(row for column in columns for row in column.scores)
    return {row: scores.get(row, {}) for row in rows}


def _table_scores(
    column: Mapping[RowKey, Scored], components: ComponentStore, single: bool
) -> TableScores[RowKey]:
    """Return the scores of a table's last column; runs that were started alone have the same seed."""
    if not single:
        return TableScores(column, components)
    of_one_seed: dict[RowKey, Scored] = {}
    for row, scores in column.items():
        of_one_seed[row] = {0: next(iter(scores.values()))} if scores else scores
    return TableScores(of_one_seed, components)


def _judged(
    data: StudyData,
    columns: Sequence[_ColumnScores],
    tested: Sequence[Mapping[RowKey, Scored]],
    components: ComponentStore,
    single: bool,
) -> list[dict[RowKey, Judged]]:
    """Compare each row with that of the baseline's encoder of the same name, or its only one."""
    rows = list(dict.fromkeys(row for column in tested for row in column))
    of_baseline = [row for row in rows if row[0] == data.baseline]
    ends = [row for row in of_baseline if not row[1].endswith(START)] or of_baseline
    groups: dict[RowKey, list[RowKey]] = {}
    for cell, encoder in rows:
        against = next((row for row in of_baseline if row[1] == encoder), None)
        if against is None and len(ends) == 1 and not encoder.endswith(START):
            against = ends[0]
        if cell != data.baseline and against is not None:
            groups.setdefault(against, []).append((cell, encoder))
    comparisons = []
    for scores, column in zip(columns, tested, strict=True):
        judged: dict[RowKey, Judged] = {}
        if not scores.column.cost:
            for against, keys in groups.items():
                cells = {row: column.get(row, {}) for row in keys}
                baseline = column.get(against, {})
                judged |= judge_column(baseline, cells, single=single, components=components)
        comparisons.append(corrected(judged, data.looks))
    return comparisons


def _with_comparisons(
    rows: Sequence[SummaryRow], judged: Sequence[Mapping[RowKey, Judged]]
) -> list[SummaryRow]:
    compared = []
    for row in rows:
        cells = [
            attrs.evolve(cell, judged=of_column.get(row.key))
            for cell, of_column in zip(row.cells, judged, strict=True)
        ]
        compared.append(attrs.evolve(row, cells=tuple(cells)))
    return compared


def _corrected_together(summaries: Sequence[Summary], looks: int) -> list[Summary]:
    """Return tables whose p-values against the baseline are corrected as one family (Holm, 1979)."""
    judged: dict[tuple[int, int, RowKey], Judged] = {}
    for number, summary in enumerate(summaries):
        for row in summary.rows:
            for place, cell in enumerate(row.cells):
                if cell.judged is not None:
                    judged[number, place, row.key] = cell.judged
    judged = corrected(judged, looks)
    together = []
    for number, summary in enumerate(summaries):
        columns: list[dict[RowKey, Judged]] = [{} for _ in summary.columns]
        for (table, place, key), comparison in judged.items():
            if table == number:
                columns[place][key] = comparison
        rows = _with_comparisons(summary.rows, columns)
        together.append(attrs.evolve(summary, rows=tuple(rows)))
    return together


def _with_equivalence(summary: Summary) -> Summary:
    """Return a table whose last column has the tests of equivalence, if the study has a margin."""
    tests = equivalences(summary)
    if not tests:
        return summary
    rows = []
    for row in summary.rows:
        last = attrs.evolve(row.cells[-1], equivalence=tests.get(row.key))
        rows.append(attrs.evolve(row, cells=(*row.cells[:-1], last)))
    return attrs.evolve(summary, rows=tuple(rows))
