"""Building of a study's tables from its scores: columns, rows, marks, tests and corrections."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import START, Direction, Score

from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.formatting import cost_digits
from sentbed_report.score_protocols import evaluation_protocol
from sentbed_report.statistics.item_components import (
    ComponentStore,
    PromptScores,
    degenerate_reason,
    parts_of,
)
from sentbed_report.statistics.significance import (
    RESAMPLES,
    Judged,
    Scored,
    ScoreOfSeed,
    TableScores,
    average_column,
    corrected,
    judge_cell,
)
from sentbed_report.study.comparable_scores import ComparableScores, comparable_scores
from sentbed_report.study.encoder_differences import encoder_differences
from sentbed_report.study.equivalence import with_equivalence
from sentbed_report.study.measurements import Measurement, measurements
from sentbed_report.study.published_number_comparison import with_published
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_row import RowKey, SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import AVERAGE, Column, heading_of
from sentbed_report.tables.estimate import MEAN_DECIMALS, Estimate, Place


def summarise(
    data: StudyData, start: bool = False, resamples: int = RESAMPLES
) -> tuple[Summary, ...]:
    """Return the tables of a study: one per evaluator and protocol id, and one per further metric.

    Cells whose scores have another protocol get further tables, whose notes name the entries that differ.
    `start` adds rows of the encoders before training. A cell that has not finished has a row without values.
    """
    measured = list(measurements(data))
    if not start:
        measured = _without_start(measured)
    summaries = []
    for comparable in comparable_scores(measured, data.prompts):
        summaries.append(_summary(data, comparable, resamples))
    summaries = _with_corrections(data, summaries)
    return tuple(map(with_equivalence, with_published(data, summaries)))


def _without_start(measured: Sequence[Measurement]) -> list[Measurement]:
    """Return the scores after training, and of runs without such scores those before training."""
    after_training = set()
    for measurement in measured:
        if not measurement.score.encoder.endswith(START):
            after_training.add(id(measurement.run))
    kept = []
    for measurement in measured:
        is_start = measurement.score.encoder.endswith(START)
        if not is_start or id(measurement.run) not in after_training:
            kept.append(measurement)
    return kept


@attrs.frozen
class _ScoredColumn:
    """A column with its scores and numbers, for each row that has any."""

    column: Column
    scores: Mapping[RowKey, Scored]
    tested: Mapping[RowKey, Scored] = attrs.field()
    """Scores to be tested; none for a cost, nor for an average over several metrics."""
    estimates: Mapping[RowKey, Estimate] = attrs.field()
    """Numbers of the cells of this column."""

    @tested.default
    def _scores_but_costs(self) -> Mapping[RowKey, Scored]:
        return {} if self.column.cost else self.scores

    @estimates.default
    def _means_over_seeds(self) -> Mapping[RowKey, Estimate]:
        estimates = {}
        for row, scores in self.scores.items():
            values = {seed: score.value for seed, score in scores.items()}
            estimates[row] = Estimate(values, degenerate=_degenerate_reason(scores))
        return estimates


def _degenerate_reason(scores: Scored) -> str:
    """Return why the scores say nothing about their encoder, with the seeds if not under all; else empty."""
    reasons = {}
    for seed, score in scores.items():
        if isinstance(score, PromptScores):
            reason = _degenerate_under_prompts(score)
        else:
            reason = degenerate_reason(score)
        if reason:
            reasons[seed] = reason
    text = "; ".join(dict.fromkeys(reasons.values()))
    if len(reasons) in (0, len(scores)):
        return text
    return f"{text} (seed {', '.join(map(str, reasons))})"


def _degenerate_under_prompts(scores: PromptScores) -> str:
    """Return why a mean over prompts says nothing about its encoder, with the prompts; else empty."""
    reasons: dict[str, dict[str, None]] = {}
    for prompt, score in scores.of_prompts.items():
        for part in parts_of(score):
            reason = degenerate_of(part)
            if reason:
                reasons.setdefault(reason, {})[prompt] = None
    listed = []
    for reason, prompts in reasons.items():
        listed.append(f"{reason} (prompt {', '.join(prompts)})")
    return "; ".join(listed)


def _summary(data: StudyData, comparable: ComparableScores, resamples: int) -> Summary:
    """Return the table of comparable scores, with p-values before any correction."""
    columns = _columns(data, comparable)
    if not data.axes and all(len(cell.runs) == 1 for cell in data.cells):
        columns = list(map(_under_one_seed, columns))
    components = ComponentStore(resamples)
    digits = score_digits(_values(columns))
    keys = list(dict.fromkeys(map(_row_key, comparable.measured)))
    ranked = _ranked_rows(data, keys)
    references = _rows_of_baseline(data, columns)
    for number, scored in enumerate(columns):
        marked = _with_marks(data, scored, ranked, digits)
        columns[number] = _with_comparisons(marked, references, components)
    rows = _rows(data, columns, keys)

    scored_seeds = set(chain.from_iterable(row.scored for row in rows))
    seeds = dict.fromkeys([*data.seeds, *(run.seed for run in data.runs)])
    protocol_notes = list(comparable.notes)
    differences = encoder_differences(data, comparable.measured)
    if differences:
        protocol_notes.append(differences)
    return Summary(
        data.name,
        comparable.evaluator,
        comparable.protocol_id,
        comparable.metric,
        _note(comparable, columns),
        comparable.apart,
        _printed_columns(columns, digits, data.baseline or ""),
        rows,
        data.baseline,
        resamples,
        tuple(filter(scored_seeds.__contains__, seeds)),
        ranks=data.ranks,
        looks=data.looks,
        equivalence=data.equivalence,
        family=data.family,
        development=comparable.is_development,
        scores=TableScores(columns[-1].tested, components),
        measured=tuple(scored.scores for scored in columns),
        has_groups=data.groups,
        prompts=data.prompts,
        prompt_factor=data.prompt_factor,
        protocol_notes=tuple(protocol_notes),
    )


def _values(columns: Sequence[_ScoredColumn]) -> list[float]:
    values = []
    for scored in columns:
        for estimate in scored.estimates.values():
            if estimate.value is not None:
                values.append(estimate.value)
    return values


# --- columns -----------------------------------------------------------------------------------------------


def _columns(data: StudyData, comparable: ComparableScores) -> list[_ScoredColumn]:
    """Return the columns: the tasks in their order, then their average.

    The average is the one that the evaluator reports, or else the mean over several tasks without costs.
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
    return sorted(columns, key=lambda scored: _order(scored.column.task, data.order))


def _row_key(measurement: Measurement) -> RowKey:
    return measurement.cell.name, measurement.score.encoder


def _column_and_scores(
    data: StudyData, comparable: ComparableScores, task: str
) -> tuple[_ScoredColumn, dict[RowKey, dict[int, ScoreOfSeed]]]:
    """Return the column of a task and its scores; the first score counts if a run has two."""
    of_task = []
    directions = set()
    scores_of_runs: dict[RowKey, dict[int, dict[str, Score]]] = {}
    for measurement in comparable.measured:
        score = measurement.score
        if score.task == task:
            of_task.append(score)
            directions.add(score.direction)
            of_row = scores_of_runs.setdefault(_row_key(measurement), {})
            of_seed = of_row.setdefault(measurement.run.seed, {})
            of_seed.setdefault(measurement.run.prompt, score)

    scores = {row: _by_seed(data, of_row) for row, of_row in scores_of_runs.items()}
    column = Column(
        task,
        of_task[0].metric,
        evaluation_protocol(of_task[0]),
        _common_direction(directions),
        cost=any(score.axis == "cost" for score in of_task),
    )
    return _ScoredColumn(column, scores), scores


def _by_seed(
    data: StudyData, scores: Mapping[int, Mapping[str, Score]]
) -> dict[int, ScoreOfSeed]:
    """Return the score of each seed; in a study with prompts, only of seeds with a score under every prompt."""
    by_seed: dict[int, ScoreOfSeed] = {}
    for seed, of_seed in scores.items():
        if not data.prompts:
            by_seed[seed] = of_seed[""]
        elif of_seed.keys() >= set(data.prompts):
            in_order = {prompt: of_seed[prompt] for prompt in data.prompts}
            by_seed[seed] = PromptScores(in_order, data.prompt_factor == "random")
    return by_seed


def _average(
    comparable: ComparableScores,
    columns: Sequence[_ScoredColumn],
    means: Mapping[RowKey, Scored],
) -> _ScoredColumn:
    """Return the column of the mean over tasks; it has no direction, and no tests, if their metrics differ."""
    metrics = set()
    directions = set()
    for scored in columns:
        metrics.add(scored.column.metric)
        directions.add(scored.column.direction)
    missing = {*_skipped_tasks(comparable), *comparable.tasks_elsewhere}
    missing -= comparable.protocols.keys()
    part = ""
    if missing:
        part = f"{len(columns)} of {len(columns) + len(missing)}"
    if len(metrics) > 1:
        return _ScoredColumn(Column(AVERAGE, "mean", part=part), means, tested={})
    direction = _common_direction(directions)
    column = Column(AVERAGE, metrics.pop(), direction=direction, part=part)
    return _ScoredColumn(column, means)


def _under_one_seed(scored: _ScoredColumn) -> _ScoredColumn:
    """Return a column of single runs with their scores under seed 0, so that unlike seeds are compared."""
    tested = {}
    for row, scores in scored.tested.items():
        tested[row] = dict(zip([0], scores.values(), strict=False))
    return attrs.evolve(scored, tested=tested)


def _common_direction(directions: Collection[Direction]) -> Direction:
    """Return the common direction, or `none` if they differ."""
    return next(iter(directions)) if len(directions) == 1 else "none"


def _skipped_tasks(comparable: ComparableScores) -> list[str]:
    """Return the tasks that an evaluator skipped because their data is missing, and that no row has."""
    skipped: dict[str, None] = {}
    for measurement in comparable.measured:
        for task in measurement.score.skipped:
            if task not in comparable.protocols:
                skipped[task] = None
    return list(skipped)


def _order(task: str, order: Sequence[str]) -> int:
    """Return the place of a task: in the order of the study, then other tasks, then the average."""
    if task == AVERAGE:
        return len(order) + 1
    return order.index(task) if task in order else len(order)


def _note(comparable: ComparableScores, columns: Sequence[_ScoredColumn]) -> str:
    """Return evaluator, metrics and protocols of a table, tasks without data, and how it differs from others."""
    protocols: dict[str, None] = {}
    for measurement in comparable.measured:
        protocols[measurement.score.protocol_name] = None
    metrics = ", ".join(_metrics_of_tasks(columns))
    parts = [comparable.evaluator, metrics, ", ".join(protocols)]
    if comparable.is_development:
        parts.append("development data")
    skipped = _skipped_tasks(comparable)
    if skipped:
        parts.append(f"without {', '.join(skipped)}, whose data is missing")
    if comparable.apart:
        parts.append(f"unlike other tables in {comparable.apart}")
    return "; ".join(parts)


def _metrics_of_tasks(columns: Sequence[_ScoredColumn]) -> list[str]:
    """Return the different metrics of the columns, without the average."""
    metrics: dict[str, None] = {}
    for scored in columns:
        if not scored.column.average:
            metrics[scored.column.metric] = None
    return list(metrics)


def _printed_columns(
    columns: Sequence[_ScoredColumn], digits: int, baseline: str
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


# --- rows --------------------------------------------------------------------------------------------------


def _rows(
    data: StudyData, columns: Sequence[_ScoredColumn], keys: Sequence[RowKey]
) -> tuple[SummaryRow, ...]:
    """Return the rows in the order of the cells."""
    stopped = data.stopped
    rows = []
    for cell in data.cells:
        keys_of_cell = [key for key in keys if key[0] == cell.name]
        # If a run has finished without a score for this table, the other seeds will have none, either.
        if not keys_of_cell and any(run.status == "finished" for run in cell.runs):
            continue
        for key in keys_of_cell or [(cell.name, "")]:
            name = cell.name
            if len(keys_of_cell) > 1:
                name = "/".join(key)
            estimates = []
            for scored in columns:
                estimates.append(scored.estimates.get(key, Estimate()))
            row = SummaryRow(
                cell.name,
                key[1],
                name,
                cell.labels,
                cell.status,
                cell.finished_seeds,
                len(cell.seeds),
                next((run.error for run in cell.runs if run.error), ""),
                tuple(estimates),
                stopped=cell.name in stopped,
            )
            rows.append(row)

    numbers_of_seeds = set()
    for row in rows:
        if row.status == "finished":
            numbers_of_seeds.add(len(row.scored))
    if len(numbers_of_seeds) > 1:
        rows = [attrs.evolve(row, counted=True) for row in rows]
    return tuple(rows)


def _ranked_rows(data: StudyData, keys: Sequence[RowKey]) -> list[RowKey]:
    """Return the rows that get places and ranks: their cells have finished and were not stopped.

    Means of stopped cells lack the later seeds, which may be bad for all cells.
    """
    complete = {cell.name for cell in data.cells if cell.status == "finished"}
    complete -= data.stopped
    return [key for key in keys if key[0] in complete]


def _with_marks(
    data: StudyData, scored: _ScoredColumn, ranked: Sequence[RowKey], digits: int
) -> _ScoredColumn:
    """Return a column with places and ranks among the rows `ranked`, without degenerate ones."""
    if not scored.column.ranked:
        return scored

    means = {}
    for row in ranked:
        estimate = scored.estimates.get(row, Estimate())
        if estimate.value is None or not estimate.is_finite or estimate.degenerate:
            continue
        means[row] = estimate.value
    places = _places(scored.column, means, digits)
    ranks = _ranks(data, scored.column, means)
    estimates = {}
    for row, estimate in scored.estimates.items():
        estimates[row] = attrs.evolve(
            estimate, place=places.get(row), rank=ranks.get(row)
        )
    return attrs.evolve(scored, estimates=estimates)


def _places(
    column: Column, means: Mapping[RowKey, float], digits: int
) -> dict[RowKey, Place]:
    """Return place 1 of the best rows and place 2 of the second best, which share a place if printed equal."""
    printed = {row: round(mean, digits) for row, mean in means.items()}
    distinct = sorted(set(printed.values()), reverse=column.direction == "higher")
    if len(distinct) < 2:
        return {}
    places: dict[RowKey, Place] = {}
    for row, value in printed.items():
        if value == distinct[0]:
            places[row] = 1
        elif value == distinct[1]:
            places[row] = 2
    return places


def _ranks(
    data: StudyData, column: Column, means: Mapping[RowKey, float]
) -> dict[RowKey, int]:
    """Return the rank of each row among the rows with the same labels on the axes `StudyData.ranks`.

    Means are compared before they are rounded for print; equal means share the smallest of their ranks.
    """
    if data.ranks is None:
        return {}
    import pandas

    labels = {}
    for cell in data.cells:
        labels[cell.name] = " ".join(map(repr, map(cell.labels.get, data.ranks)))
    labels_of_rows = [labels[row[0]] for row in means]
    frame = pandas.DataFrame({"labels": labels_of_rows, "mean": list(means.values())})
    groups = frame.round(MEAN_DECIMALS).groupby("labels")["mean"]
    ranks = groups.rank("min", ascending=column.direction == "lower")
    return dict(zip(means, ranks.astype(int).tolist(), strict=True))


# --- comparisons -------------------------------------------------------------------------------------------


def _rows_of_baseline(
    data: StudyData, columns: Sequence[_ScoredColumn]
) -> dict[RowKey, RowKey]:
    """Return row -> the baseline's row that it is compared with: of the same encoder, or the only one.

    Encoders before training do not count as the only one.
    """
    rows = list(dict.fromkeys(chain.from_iterable(scored.tested for scored in columns)))
    encoders = [encoder for cell, encoder in rows if cell == data.baseline]
    trained = [encoder for encoder in encoders if not encoder.endswith(START)]
    trained = trained or encoders
    references = {}
    for cell, encoder in rows:
        if cell == data.baseline or data.baseline is None:
            continue
        if encoder in encoders:
            references[cell, encoder] = (data.baseline, encoder)
        elif len(trained) == 1 and not encoder.endswith(START):
            references[cell, encoder] = (data.baseline, trained[0])
    return references


def _with_comparisons(
    scored: _ScoredColumn,
    references: Mapping[RowKey, RowKey],
    components: ComponentStore,
) -> _ScoredColumn:
    """Return a column with the comparison of each row with the baseline, before any correction."""
    if scored.column.cost:
        return scored
    estimates = dict(scored.estimates)
    for row, reference in references.items():
        before = scored.tested.get(reference, {})
        after = scored.tested.get(row, {})
        judged = judge_cell(before, after, components)
        estimates[row] = attrs.evolve(estimates.get(row, Estimate()), judged=judged)
    return attrs.evolve(scored, estimates=estimates)


def _with_corrections(data: StudyData, summaries: Sequence[Summary]) -> list[Summary]:
    """Return tables with corrected p-values, over each column or over all of the study (Holm, 1979)."""
    families: dict[tuple[int, ...], dict[int, Judged]] = {}
    for number, summary in enumerate(summaries):
        for row in summary.rows:
            for place, cell in enumerate(row.cells):
                if cell.judged is not None:
                    family = (number, place) if data.family == "column" else ()
                    families.setdefault(family, {})[id(cell)] = cell.judged
    judged: dict[int, Judged] = {}
    for comparisons in families.values():
        judged |= corrected(comparisons, data.looks)

    def with_correction(cell: Estimate) -> Estimate:
        return attrs.evolve(cell, judged=judged.get(id(cell)))

    return [summary.with_estimates(with_correction) for summary in summaries]
