"""Construction of a study's tables from its scores: columns, rows, marks, tests and corrections."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

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
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study.summary_row import RowKey, SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import AVERAGE, Column, heading_of
from sentbed_report.tables.estimate import MEAN_DECIMALS, Estimate, Place


def summarise(
    data: StudyData,
    start: bool = False,
    resamples: int = RESAMPLES,
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
    for comparable in comparable_scores(measured, data.prompts):
        summaries.append(_summary(data, comparable, resamples))
    summaries = _with_corrections(data, summaries)
    return tuple(map(with_equivalence, with_published(data, summaries)))


def _without_start(measured: Sequence[Measurement]) -> list[Measurement]:
    """Return the scores after training; for a run that has none, the scores before training."""
    trained_runs = set()
    for measurement in measured:
        if not measurement.score.encoder.endswith(START):
            trained_runs.add(id(measurement.run))

    kept = []
    for measurement in measured:
        is_start = measurement.score.encoder.endswith(START)
        if not is_start or id(measurement.run) not in trained_runs:
            kept.append(measurement)
    return kept


@attrs.frozen
class _ScoredColumn:
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
            estimates[row] = Estimate(values, degenerate=_degenerate_reason(scores))
        return estimates


def _degenerate_reason(scores: Scored) -> str:
    """Return why a row's scores say nothing about their encoder; empty if none is degenerate.

    If this is true of some seeds only, the text names these seeds.
    """
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
    """Return why scores of a seed are degenerate, and under which prompts; empty if none of them is."""
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


def _summary(
    data: StudyData,
    comparable: ComparableScores,
    resamples: int,
) -> Summary:
    """Return the table of comparable scores; p-values are not corrected yet."""
    scored_columns = _columns(data, comparable)
    if not data.axes and all(len(cell.runs) == 1 for cell in data.cells):
        scored_columns = list(map(_under_one_seed, scored_columns))

    components = ComponentStore(resamples)
    digits = score_digits(_values(scored_columns))
    keys = list(dict.fromkeys(map(_row_key, comparable.measured)))
    ranked = _ranked_rows(data, keys)
    references = _rows_of_baseline(data, scored_columns)
    columns = []
    for scored in scored_columns:
        marked = _with_marks(data, scored, ranked, digits)
        columns.append(_with_comparisons(marked, references, components))
    rows = _rows(data, columns, keys)

    protocol_notes = list(comparable.notes)
    differences = encoder_differences(data, comparable.measured)
    if differences:
        protocol_notes.append(differences)
    return Summary(
        study=data.name,
        evaluator=comparable.key.evaluator,
        protocol=comparable.key.protocol_id,
        metric=comparable.metric,
        note=_note(comparable, columns),
        apart=comparable.apart,
        columns=_printed_columns(columns, digits, data.baseline or ""),
        rows=rows,
        baseline=data.baseline,
        resamples=resamples,
        seeds=_scored_seeds(data, rows),
        ranks=data.ranks,
        looks=data.looks,
        equivalence=data.equivalence,
        family=data.family,
        development=comparable.key.is_development,
        scores=TableScores(columns[-1].tested, components),
        measured=tuple(scored.scores for scored in columns),
        has_groups=data.groups,
        prompts=data.prompts,
        prompt_factor=data.prompt_factor,
        protocol_notes=tuple(protocol_notes),
    )


def _scored_seeds(data: StudyData, rows: Sequence[SummaryRow]) -> tuple[int, ...]:
    """Return the seeds under which any row has a score, in the study's order, then in the order of the runs."""
    scored: set[int] = set()
    for row in rows:
        scored.update(row.scored)
    seeds = list(data.seeds)
    for run in data.runs:
        seeds.append(run.seed)
    return tuple(seed for seed in dict.fromkeys(seeds) if seed in scored)


def _values(columns: Sequence[_ScoredColumn]) -> list[float]:
    """Return all numbers in the columns, without rows that have none."""
    values = []
    for scored in columns:
        for estimate in scored.estimates.values():
            if estimate.value is not None:
                values.append(estimate.value)
    return values


# --- columns -----------------------------------------------------------------------------------------------


def _columns(data: StudyData, comparable: ComparableScores) -> list[_ScoredColumn]:
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

    return sorted(columns, key=lambda scored: _order(scored.column.task, data.order))


def _row_key(measurement: Measurement) -> RowKey:
    return measurement.cell.name, measurement.score.encoder


def _column_and_scores(
    data: StudyData,
    comparable: ComparableScores,
    task: str,
) -> tuple[_ScoredColumn, dict[RowKey, dict[int, ScoreOfSeed]]]:
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
        of_row = scores_of_runs.setdefault(_row_key(measurement), {})
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
    return _ScoredColumn(column, scores), scores


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
    columns: Sequence[_ScoredColumn],
    means: Mapping[RowKey, Scored],
) -> _ScoredColumn:
    """Return the column of the mean over tasks.

    If the tasks differ in their metrics, the column has no direction (neither higher nor lower is better) and
    no tests.
    """
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


def _skipped_tasks(comparable: ComparableScores) -> list[str]:
    """Return the tasks that are not in the table because an evaluator skipped them for lack of data."""
    skipped: dict[str, None] = {}
    for measurement in comparable.measured:
        for task in measurement.score.skipped:
            if task not in comparable.protocols:
                skipped[task] = None
    return list(skipped)


def _order(task: str, order: Sequence[str]) -> int:
    """Return the sort key of a task: tasks in the study's order, then other tasks, then the average."""
    if task == AVERAGE:
        return len(order) + 1
    if task in order:
        return order.index(task)
    return len(order)


def _note(comparable: ComparableScores, columns: Sequence[_ScoredColumn]) -> str:
    """Return a short description of a table: its evaluator, metrics, protocols, and what it lacks."""
    protocols: dict[str, None] = {}
    for measurement in comparable.measured:
        protocols[measurement.score.protocol_name] = None
    metrics = _metrics_of_tasks(columns)
    parts = [comparable.key.evaluator, ", ".join(metrics), ", ".join(protocols)]
    if comparable.key.is_development:
        parts.append("development data")
    skipped = _skipped_tasks(comparable)
    if skipped:
        parts.append(f"without {', '.join(skipped)}, whose data is missing")
    if comparable.apart:
        parts.append(f"unlike other tables in {comparable.apart}")
    return "; ".join(parts)


def _metrics_of_tasks(columns: Sequence[_ScoredColumn]) -> list[str]:
    """Return the distinct metrics of the columns, without the average."""
    metrics: dict[str, None] = {}
    for scored in columns:
        if not scored.column.average:
            metrics[scored.column.metric] = None
    return list(metrics)


def _printed_columns(
    columns: Sequence[_ScoredColumn],
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


# --- rows --------------------------------------------------------------------------------------------------


def _rows(
    data: StudyData,
    columns: Sequence[_ScoredColumn],
    keys: Sequence[RowKey],
) -> tuple[SummaryRow, ...]:
    """Return the rows of the table in the order of the cells; `keys` identify the rows that have scores."""
    encoders: dict[str, list[str]] = {}
    for cell_name, encoder in keys:
        encoders.setdefault(cell_name, []).append(encoder)

    stopped = data.stopped
    rows = []
    for cell in data.cells:
        encoders_of_cell = encoders.get(cell.name, [])
        # If a run has finished without a score in this table, the cell's other runs will have none here, either.
        if not encoders_of_cell and any(run.status == "finished" for run in cell.runs):
            continue
        for encoder in encoders_of_cell or [""]:
            name = cell.name
            if len(encoders_of_cell) > 1:
                name = f"{cell.name}/{encoder}"
            row = _row(cell, encoder, name, columns)
            rows.append(attrs.evolve(row, stopped=cell.name in stopped))

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
    columns: Sequence[_ScoredColumn],
) -> SummaryRow:
    estimates = []
    for scored in columns:
        estimates.append(scored.estimates.get((cell.name, encoder), Estimate()))
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


def _ranked_rows(data: StudyData, keys: Sequence[RowKey]) -> list[RowKey]:
    """Return the rows that get places and ranks: their cells have finished and were not stopped.

    The mean of a stopped cell lacks the later seeds. If all cells score badly under the later seeds, the
    stopped cell's mean looks too good.
    """
    complete = set()
    for cell in data.cells:
        if cell.status == "finished":
            complete.add(cell.name)
    complete -= data.stopped
    return [key for key in keys if key[0] in complete]


def _with_marks(
    data: StudyData,
    scored: _ScoredColumn,
    ranked: Sequence[RowKey],
    digits: int,
) -> _ScoredColumn:
    """Return a column with places and ranks among the rows `ranked`; degenerate scores get neither."""
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
    column: Column,
    means: Mapping[RowKey, float],
    digits: int,
) -> dict[RowKey, Place]:
    """Return place 1 for the best rows and place 2 for the second best.

    Rows whose means are printed equal share a place.
    """
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
    data: StudyData,
    column: Column,
    means: Mapping[RowKey, float],
) -> dict[RowKey, int]:
    """Return the rank of each row among the rows that have the same labels on the axes `StudyData.ranks`.

    Means are compared with more decimals than are printed. Equal means share the smallest of their ranks.
    """
    if data.ranks is None:
        return {}
    import pandas

    labels_of_cells = {}
    for cell in data.cells:
        labels = [cell.labels.get(axis) for axis in data.ranks]
        labels_of_cells[cell.name] = " ".join(map(repr, labels))
    labels_of_rows = [labels_of_cells[cell_name] for cell_name, _ in means]
    frame = pandas.DataFrame({"labels": labels_of_rows, "mean": list(means.values())})
    groups = frame.round(MEAN_DECIMALS).groupby("labels")["mean"]
    ranks = groups.rank("min", ascending=column.direction == "lower")
    return dict(zip(means, ranks.astype(int).tolist(), strict=True))


# --- comparisons -------------------------------------------------------------------------------------------


def _rows_of_baseline(
    data: StudyData, columns: Sequence[_ScoredColumn]
) -> dict[RowKey, RowKey]:
    """Return row -> row of the baseline with which it is compared.

    A row is compared with the baseline's row of the same encoder. If the baseline has no such row, it is
    compared with the baseline's only row of a trained encoder. It is not compared if there are several.
    """
    if data.baseline is None:
        return {}

    rows: dict[RowKey, None] = {}
    for scored in columns:
        rows |= dict.fromkeys(scored.tested)
    encoders_of_baseline = []
    trained = []
    for cell, encoder in rows:
        if cell == data.baseline:
            encoders_of_baseline.append(encoder)
            if not encoder.endswith(START):
                trained.append(encoder)
    trained = trained or encoders_of_baseline

    references = {}
    for cell, encoder in rows:
        if cell == data.baseline:
            continue
        if encoder in encoders_of_baseline:
            references[cell, encoder] = (data.baseline, encoder)
        elif len(trained) == 1 and not encoder.endswith(START):
            references[cell, encoder] = (data.baseline, trained[0])
    return references


def _with_comparisons(
    scored: _ScoredColumn,
    references: Mapping[RowKey, RowKey],
    components: ComponentStore,
) -> _ScoredColumn:
    """Return a column with each row's comparison with the baseline; p-values are not corrected yet."""
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
    """Return the tables with corrected p-values (Holm, 1979).

    `StudyData.family` says which p-values are corrected together.
    """
    # Estimates are identified by `id`, since several cells of the table may have equal numbers.
    families: dict[tuple[int, ...], dict[int, Judged]] = {}
    for number_of_table, summary in enumerate(summaries):
        for row in summary.rows:
            for number_of_column, estimate in enumerate(row.cells):
                if estimate.judged is None:
                    continue
                family: tuple[int, ...] = ()
                if data.family == "column":
                    family = (number_of_table, number_of_column)
                families.setdefault(family, {})[id(estimate)] = estimate.judged

    judged: dict[int, Judged] = {}
    for comparisons in families.values():
        judged |= corrected(comparisons, data.looks)

    def with_correction(estimate: Estimate) -> Estimate:
        return attrs.evolve(estimate, judged=judged.get(id(estimate)))

    return [summary.with_estimates(with_correction) for summary in summaries]
