"""Building of a study's tables from its scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import START, Direction, Score

from sentbed_report.comparability import evaluation_protocol
from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.formatting import cost_digits
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
from sentbed_report.study.study_data import CellInfo, CellStatus, StudyData
from sentbed_report.study.summary_row import RowKey, SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import AVERAGE, Column, heading_of
from sentbed_report.tables.estimate import MEAN_DECIMALS, Estimate, Place

_WORST: tuple[CellStatus, ...] = ("failed", "interrupted", "running", "waiting")


def summarise(
    data: StudyData, start: bool = False, resamples: int = RESAMPLES
) -> tuple[Summary, ...]:
    """Return the tables of a study: one per evaluator, protocol id and, for further metrics, metric.

    Cells whose scores are of unlike protocol make further tables, whose notes name the entries. `start` adds
    encoders as they were before training. A cell that has not finished has a row without values.
    """
    measured = measurements(data)
    if not start:
        measured = iter(_without_start(list(measured)))
    tables = comparable_scores(measured, data.prompts)
    summaries = [_summary(data, scores, resamples) for scores in tables]
    summaries = _with_corrections(data, summaries)
    return tuple(
        with_equivalence(summary) for summary in with_published(data, summaries)
    )


def _without_start(measured: Sequence[Measurement]) -> list[Measurement]:
    """Return the scores after training, and those before it of runs that have no others."""
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
    """A column with its scores and numbers, of each row that has any."""

    column: Column
    scores: Mapping[RowKey, Scored]
    tested: Mapping[RowKey, Scored] = attrs.field()
    """Scores that are compared; none of costs, and of an average of unlike metrics."""
    estimates: Mapping[RowKey, Estimate] = attrs.field()

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
    """Return why numbers say nothing about their encoder, and under which seeds, if not under all."""
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
    """Return why a mean over prompts says nothing about its encoder, and under which prompts."""
    reasons: dict[str, list[str]] = {}
    for prompt, score in scores.of_prompts.items():
        for part in parts_of(score):
            if degenerate_of(part):
                reasons.setdefault(degenerate_of(part), []).append(prompt)
    listed = []
    for reason, prompts in reasons.items():
        listed.append(f"{reason} (prompt {', '.join(dict.fromkeys(prompts))})")
    return "; ".join(listed)


def _summary(data: StudyData, comparable: ComparableScores, resamples: int) -> Summary:
    columns = _columns(data, comparable)
    keys = list(dict.fromkeys(map(_row_key, comparable.measured)))
    if not data.axes and all(len(cell.runs) == 1 for cell in data.cells):
        columns = [_under_one_seed(scored) for scored in columns]
    components = ComponentStore(resamples)
    references = _rows_of_baseline(data, columns)
    digits = score_digits(_values(columns))
    # Means of stopped cells lack the later seeds, which may be bad for all cells.
    left = set(data.stopped)
    for cell in data.cells:
        if any(run.status != "finished" for run in cell.runs):
            left.add(cell.name)
    ranked = [key for key in keys if key[0] not in left]
    columns = [_with_marks(data, scored, ranked, digits) for scored in columns]
    columns = [_with_comparisons(scored, references, components) for scored in columns]
    rows = _rows(data, columns, keys)

    scored_seeds: set[int] = set()
    counts = set()
    for row in rows:
        scored_seeds.update(row.scored)
        if row.status == "finished":
            counts.add(len(row.scored))
    seeds = [*data.seeds]
    for cell in data.cells:
        seeds += [run.seed for run in cell.runs]
    note = _note(comparable, columns)
    if comparable.apart:
        note += f"; unlike other tables in {comparable.apart}"
    protocol_notes = [*comparable.notes]
    differences = encoder_differences(data, comparable.measured)
    if differences:
        protocol_notes.append(differences)
    return Summary(
        data.name,
        comparable.evaluator,
        comparable.protocol_id,
        comparable.metric,
        note,
        comparable.apart,
        _printed_columns(columns, digits, data.baseline or ""),
        tuple(attrs.evolve(row, counted=len(counts) > 1) for row in rows),
        data.baseline,
        resamples,
        tuple(seed for seed in dict.fromkeys(seeds) if seed in scored_seeds),
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
    """Return the tasks in their order, and last their average, where one is given or can be computed."""
    tasks: list[Column] = []
    averaged = []
    columns = []
    for task in comparable.protocols:
        if task != AVERAGE:
            column, scores = _column_and_scores(data, comparable, task)
            tasks.append(column)
            columns.append(_ScoredColumn(column, scores))
            if not column.cost:
                averaged.append(scores)
    if AVERAGE in comparable.protocols:
        column, scores = _column_and_scores(data, comparable, AVERAGE)
        average = _ScoredColumn(column, scores)
        if averaged and not column.cost:
            average = attrs.evolve(average, tested=average_column(averaged, scores))
        columns.append(average)
    elif len(columns) > 1 and len(averaged) == len(columns):
        missing = {
            *_skipped_tasks(comparable),
            *comparable.tasks_elsewhere,
        } - comparable.protocols.keys()
        part = f"{len(columns)} of {len(columns) + len(missing)}" if missing else ""
        columns.append(_average(tasks, average_column(averaged, {}), part))
    return sorted(columns, key=lambda scored: _order(scored.column.task, data.order))


def _row_key(measurement: Measurement) -> RowKey:
    return measurement.cell.name, measurement.score.encoder


def _column_and_scores(
    data: StudyData, comparable: ComparableScores, task: str
) -> tuple[Column, dict[RowKey, dict[int, ScoreOfSeed]]]:
    """Return the scores of a task; of one that is there twice the first counts."""
    of_task = []
    scores_of_runs: dict[RowKey, dict[int, dict[str, Score]]] = {}
    for measurement in comparable.measured:
        if measurement.score.task == task:
            of_task.append(measurement.score)
            of_row = scores_of_runs.setdefault(_row_key(measurement), {})
            of_seed = of_row.setdefault(measurement.run.seed, {})
            of_seed.setdefault(measurement.run.prompt, measurement.score)
    scores = {row: _by_seed(data, of_row) for row, of_row in scores_of_runs.items()}
    direction = _shared({score.direction for score in of_task})
    cost = any(score.axis == "cost" for score in of_task)
    protocol = evaluation_protocol(of_task[0])
    return Column(task, of_task[0].metric, protocol, direction, cost=cost), scores


def _by_seed(
    data: StudyData, scores: Mapping[int, Mapping[str, Score]]
) -> dict[int, ScoreOfSeed]:
    """Return the score of each seed; in a study with prompts, of each seed that has scores under all."""
    by_seed: dict[int, ScoreOfSeed] = {}
    for seed, of_seed in scores.items():
        if not data.prompts:
            by_seed[seed] = of_seed[""]
        elif all(prompt in of_seed for prompt in data.prompts):
            in_order = {prompt: of_seed[prompt] for prompt in data.prompts}
            by_seed[seed] = PromptScores(in_order, data.prompt_factor == "random")
    return by_seed


def _average(
    columns: Sequence[Column], means: Mapping[RowKey, Scored], part: str
) -> _ScoredColumn:
    """Return the average of tasks; no row is the best of it if their metrics are unlike."""
    if len({column.metric for column in columns}) > 1:
        return _ScoredColumn(Column(AVERAGE, "mean", part=part), means, tested={})
    direction = _shared({column.direction for column in columns})
    return _ScoredColumn(
        Column(AVERAGE, columns[0].metric, direction=direction, part=part), means
    )


def _under_one_seed(scored: _ScoredColumn) -> _ScoredColumn:
    """Return a column of runs that were started alone: they are compared whatever their seeds are."""
    tested = {}
    for row, scores in scored.tested.items():
        tested[row] = dict(zip([0], scores.values(), strict=False))
    return attrs.evolve(scored, tested=tested)


def _shared(directions: Collection[Direction]) -> Direction:
    """Return the common direction, or `none` if they differ."""
    return next(iter(directions)) if len(directions) == 1 else "none"


def _skipped_tasks(comparable: ComparableScores) -> list[str]:
    """Return the tasks that no row has, as they were left out for want of data."""
    skipped = dict.fromkeys(
        task
        for measurement in comparable.measured
        for task in measurement.score.skipped
    )
    return [task for task in skipped if task not in comparable.protocols]


def _order(task: str, order: Sequence[str]) -> int:
    """Return the place of a task: as the study lists them, then others, then the average."""
    if task == AVERAGE:
        return len(order) + 1
    return order.index(task) if task in order else len(order)


def _note(comparable: ComparableScores, columns: Sequence[_ScoredColumn]) -> str:
    """Return evaluator, metrics and protocols of a table in a few words, and which tasks have no data."""
    own_columns = [scores.column for scores in columns if not scores.column.average]
    metrics = dict.fromkeys(column.metric for column in own_columns)
    protocols = dict.fromkeys(
        measurement.score.protocol_name for measurement in comparable.measured
    )
    parts = [comparable.evaluator, ", ".join(metrics), ", ".join(protocols)]
    if comparable.is_development:
        parts.append("development data")
    skipped = _skipped_tasks(comparable)
    if skipped:
        parts.append(f"without {', '.join(skipped)}, whose data is missing")
    return "; ".join(parts)


def _printed_columns(
    columns: Sequence[_ScoredColumn], digits: int, baseline: str
) -> tuple[Column, ...]:
    """Return the columns with their headings and decimals."""
    metrics = {scored.column.metric for scored in columns if not scored.column.average}
    printed = []
    for scored in columns:
        column = attrs.evolve(scored.column, digits=digits, reference=baseline)
        if column.cost:
            values = [estimate.value for estimate in scored.estimates.values()]
            column = attrs.evolve(
                column,
                digits=cost_digits(value for value in values if value is not None),
            )
        printed.append(
            attrs.evolve(column, heading=heading_of(column, len(metrics) > 1))
        )
    return tuple(printed)


# --- rows --------------------------------------------------------------------------------------------------


def _rows(
    data: StudyData, columns: Sequence[_ScoredColumn], keys: Sequence[RowKey]
) -> list[SummaryRow]:
    """Return the rows in the order of the cells."""
    rows = []
    for cell in data.cells:
        of_cell = [key for key in keys if key[0] == cell.name]
        # If one seed has no score here, the others will have none, either.
        if not of_cell and any(run.status == "finished" for run in cell.runs):
            continue
        for key in of_cell or [(cell.name, "")]:
            estimates = tuple(
                scored.estimates.get(key, Estimate()) for scored in columns
            )
            rows.append(
                _row(
                    cell, key[1], len(of_cell) > 1, estimates, cell.name in data.stopped
                )
            )
    return rows


def _row(
    cell: CellInfo,
    encoder: str,
    several: bool,
    cells: tuple[Estimate, ...],
    stopped: bool,
) -> SummaryRow:
    statuses = {run.status for run in cell.runs}
    name = cell.name
    if several:
        name = f"{cell.name}/{encoder}"
    return SummaryRow(
        cell.name,
        encoder,
        name,
        cell.labels,
        next((status for status in _WORST if status in statuses), "finished"),
        cell.finished_seeds,
        len(cell.seeds),
        next((run.error for run in cell.runs if run.error), ""),
        cells,
        stopped=stopped,
    )


def _with_marks(
    data: StudyData, scored: _ScoredColumn, ranked: Sequence[RowKey], digits: int
) -> _ScoredColumn:
    """Return a column with places and ranks among the rows `ranked`, without those that are degenerate."""
    if not scored.column.ranked:
        return scored
    means = {}
    for row in ranked:
        estimate = scored.estimates.get(row, Estimate())
        if (
            estimate.value is not None
            and estimate.is_finite
            and not estimate.degenerate
        ):
            means[row] = estimate.value
    places, ranks = (
        _places(scored.column, means, digits),
        _ranks(data, scored.column, means),
    )
    estimates = {}
    for row, estimate in scored.estimates.items():
        estimates[row] = attrs.evolve(
            estimate, place=places.get(row), rank=ranks.get(row)
        )
    return attrs.evolve(scored, estimates=estimates)


def _places(
    column: Column, means: Mapping[RowKey, float], digits: int
) -> dict[RowKey, Place]:
    """Return which rows are the best and the second best, as printed; equal numbers share a place."""
    printed = {row: round(mean, digits) for row, mean in means.items()}
    distinct = sorted(set(printed.values()), reverse=column.direction == "higher")
    if len(distinct) < 2:
        return {}
    numbers: dict[float, Place] = {distinct[0]: 1, distinct[1]: 2}
    return {row: numbers[value] for row, value in printed.items() if value in numbers}


def _ranks(
    data: StudyData, column: Column, means: Mapping[RowKey, float]
) -> dict[RowKey, int]:
    """Return the rank of each row, among the rows with its labels on the axes of `ranks`.

    Means are compared before rounding for print; equal ones have the same rank, the least.
    """
    if data.ranks is None:
        return {}
    import pandas

    labels = {
        cell.name: " ".join(map(repr, map(cell.labels.get, data.ranks)))
        for cell in data.cells
    }
    frame = pandas.DataFrame(
        {"labels": [labels[row[0]] for row in means], "mean": list(means.values())}
    )
    groups = frame.round(MEAN_DECIMALS).groupby("labels")["mean"]
    ranks = groups.rank("min", ascending=column.direction == "lower")
    return dict(zip(means, ranks.astype(int).tolist(), strict=True))


# --- comparisons -------------------------------------------------------------------------------------------


def _rows_of_baseline(
    data: StudyData, columns: Sequence[_ScoredColumn]
) -> dict[RowKey, RowKey]:
    """Return row -> the row that it is compared with: the baseline's encoder of its name, or its only one."""
    rows = list(dict.fromkeys(row for scored in columns for row in scored.tested))
    of_baseline = [row for row in rows if row[0] == data.baseline]
    ends = [row for row in of_baseline if not row[1].endswith(START)] or of_baseline
    references = {}
    for row in rows:
        reference = next((other for other in of_baseline if other[1] == row[1]), None)
        if reference is None and len(ends) == 1 and not row[1].endswith(START):
            reference = ends[0]
        if row[0] != data.baseline and reference is not None:
            references[row] = reference
    return references


def _with_comparisons(
    scored: _ScoredColumn,
    references: Mapping[RowKey, RowKey],
    components: ComponentStore,
) -> _ScoredColumn:
    """Return a column with its comparisons, before any correction."""
    if scored.column.cost:
        return scored
    estimates = dict(scored.estimates)
    for row, reference in references.items():
        before, after = scored.tested.get(reference, {}), scored.tested.get(row, {})
        judged = judge_cell(before, after, components)
        estimates[row] = attrs.evolve(estimates.get(row, Estimate()), judged=judged)
    return attrs.evolve(scored, estimates=estimates)


def _with_corrections(data: StudyData, summaries: Sequence[Summary]) -> list[Summary]:
    """Return tables whose p-values are corrected, in each column or in all together (Holm, 1979)."""
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
    return [
        summary.with_estimates(
            lambda cell: attrs.evolve(cell, judged=judged.get(id(cell)))
        )
        for summary in summaries
    ]
