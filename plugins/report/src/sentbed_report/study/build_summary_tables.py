"""Building of a study's summary tables from its scores.

Every cell under every seed is first a row of a table as `paper_style_tables.py` makes them of runs, which
decides the scores that share a column; then the rows of one cell become one. So the average of a row is that
of each seed, and its spread the spread of these averages. Scores that cannot share a table go into several.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import START, Score

from sentbed_report.comparability import evaluation_protocol
from sentbed_report.format_independent_table import Place
from sentbed_report.paper_style_tables import AVERAGE, PaperTable, paper_tables
from sentbed_report.run_cost import cost_scores
from sentbed_report.score_tables import encoder_order
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
from sentbed_report.study.comparable_scores import alike
from sentbed_report.study.published_number_comparison import with_published
from sentbed_report.study.study_data import CellInfo, CellStatus, StudyData
from sentbed_report.study.summary_tables import Measured, Summary, SummaryColumn, SummaryRow

_WORST: tuple[CellStatus, ...] = ("failed", "interrupted", "running", "waiting")

Named: TypeAlias = tuple[str, str]
"""Cell and encoder: a row of a table."""
Task: TypeAlias = tuple[str, str, str, str]
"""Row of `paper_tables`, evaluator, protocol id, task."""


def summarise(data: StudyData, start: bool = False, resamples: int = RESAMPLES) -> tuple[Summary, ...]:
    """Return the tables of a study: one per evaluator, protocol id and, for further metrics, metric.

    Cells whose scores are of unlike protocol make further tables, whose notes name the entries. `start` adds
    encoders as they were before training. A cell that has not finished has a row without values.
    """
    labels: dict[str, tuple[Named, int]] = {}
    left: list[tuple[str, Score]] = []
    for cell in data.cells:
        for run in cell.runs:
            names = encoder_order(score.encoder for score in run.scores)
            ends = [name for name in names if start or not name.endswith(START)] or names
            for name in ends:
                label = _label(cell, run.seed, name if len(ends) > 1 else "", labels)
                labels[label] = ((cell.name, name), run.seed)
                left += [(label, score) for score in run.scores if score.encoder == name]
                left += [(label, score) for score in cost_scores(run.cost, name)]
    found: list[Summary] = []
    first = True
    while left:
        taken: set[tuple[str, ...]] = set()
        for group in _groups(left, by_metric=not first):
            for scores, apart in alike(group):
                used = _first(scores)
                taken |= {(*task, score.metric, score.protocol_name) for task, score in used.items()}
                (table,) = paper_tables(scores)
                metric = "" if first else table.columns[0].metric
                found.append(_summary(data, table, used, labels, metric, apart, resamples))
        left = [one for one in left if (*_task(*one), one[1].metric, one[1].protocol_name) not in taken]
        first = False
    order = list(dict.fromkeys((one.evaluator, one.protocol) for one in found))
    found.sort(key=lambda one: order.index((one.evaluator, one.protocol)))
    if data.family == "study":
        found = _corrected_together(found, data.looks)
    return with_published(data, found)


def _corrected_together(summaries: Sequence[Summary], looks: int) -> list[Summary]:
    """Return tables whose p-values against the baseline are corrected as one family (Holm, 1979)."""
    judged: dict[tuple[int, int, int], Judged] = {}
    for number, summary in enumerate(summaries):
        for place, row in enumerate(summary.rows):
            for index, cell in enumerate(row.cells):
                if cell.judged is not None:
                    judged[number, place, index] = cell.judged
    judged = corrected(judged, looks)
    found = []
    for number, summary in enumerate(summaries):
        rows = []
        for place, row in enumerate(summary.rows):
            cells = (
                attrs.evolve(cell, judged=judged.get((number, place, index)))
                for index, cell in enumerate(row.cells)
            )
            rows.append(attrs.evolve(row, cells=tuple(cells)))
        found.append(attrs.evolve(summary, rows=tuple(rows)))
    return found


def _label(cell: CellInfo, seed: int, encoder: str, known: Mapping[str, Any]) -> str:
    label = f"{cell.name}{'/' if encoder else ''}{encoder}"
    label = f"{label}, seed {seed}" if len(cell.runs) > 1 else label
    while label in known:
        label += "'"
    return label


def _task(row: str, score: Score) -> Task:
    return row, score.evaluator, score.protocol_id, score.task


def _first(rows: Sequence[tuple[str, Score]]) -> dict[Task, Score]:
    """Return the score of each task that `paper_tables` prints."""
    found: dict[Task, Score] = {}
    for row, score in rows:
        found.setdefault(_task(row, score), score)
    return found


def _groups(rows: Sequence[tuple[str, Score]], by_metric: bool) -> Iterator[list[tuple[str, Score]]]:
    """Yield what goes into tables together: of further metrics, one at a time."""
    groups: dict[str, list[tuple[str, Score]]] = {}
    for row, score in rows:
        groups.setdefault(score.metric if by_metric else "", []).append((row, score))
    yield from groups.values()


def _summary(
    data: StudyData,
    table: PaperTable,
    scores: Mapping[Task, Score],
    labels: Mapping[str, tuple[Named, int]],
    metric: str,
    apart: str,
    resamples: int,
) -> Summary:
    columns = sorted(table.columns, key=lambda column: _order(column.task, data.order))
    values: dict[Named, list[dict[int, float]]] = {}
    whys: dict[tuple[Named, int], dict[int, str]] = {}
    found: dict[Named, list[dict[int, Score]]] = {}
    protocols: dict[str, Mapping[str, Any]] = {}
    for place, label in enumerate(table.encoders):
        key, seed = labels[label]
        row = values.setdefault(key, [{} for _ in columns])
        of_row = found.setdefault(key, [{} for _ in columns])
        for index, column in enumerate(columns):
            value = column.values[place]
            if value is None:
                continue
            row[index][seed] = value
            if column.degenerate[place]:
                whys.setdefault((key, index), {})[seed] = column.degenerate[place]
            # An average that the evaluator does not give is not a score.
            if score := scores.get((label, table.evaluator, table.protocol, column.task)):
                of_row[index][seed] = score
                protocols.setdefault(column.task, evaluation_protocol(score))
    heads = tuple(
        SummaryColumn(c.task, c.metric, protocols.get(c.task, {}), c.direction, c.part, c.cost)
        for c in columns
    )
    # Only arbitrary runs have no axes.
    single = not data.axes and all(len(cell.runs) == 1 for cell in data.cells)
    components = ComponentStore(resamples)
    scored_columns = _scored_columns(heads, found)
    judged = _judged(data, heads, scored_columns, components, single)
    unfinished = {cell.name for cell in data.cells if any(run.status != "finished" for run in cell.runs)}
    # Means of stopped cells lack the later seeds, which may be bad for all cells.
    unplaced = unfinished | data.stopped
    places = _places(heads, values, unplaced, whys)
    ranks = _ranks(heads, values, unplaced, whys, data)
    rows = []
    for cell in data.cells:
        keys = [key for key in values if key[0] == cell.name]
        # If one seed has no score here, the others will have none, either.
        if not keys and any(run.status == "finished" for run in cell.runs):
            continue
        for key in keys or [(cell.name, "")]:
            cells = tuple(
                Measured(
                    one,
                    places[index].get(key),
                    judged[index].get(key),
                    degenerate=_reason(whys.get((key, index), {}), one),
                    rank=ranks[index].get(key),
                )
                for index, one in enumerate(values.get(key, [{} for _ in heads]))
            )
            rows.append(_row(cell, key[1], len(keys) > 1, cells, cell.name in data.stopped))
    scored = {seed for row in rows for seed in row.scored}
    counts = {len(row.scored) for row in rows if row.status == "finished"}
    order = dict.fromkeys([*data.seeds, *(run.seed for cell in data.cells for run in cell.runs)])
    return Summary(
        data.name,
        table.evaluator,
        table.protocol,
        metric,
        f"{table.note}; unlike other tables in {apart}" if apart else table.note,
        apart,
        heads,
        tuple(attrs.evolve(row, counted=len(counts) > 1) for row in rows),
        data.baseline,
        resamples,
        tuple(seed for seed in order if seed in scored),
        ranks=data.ranks,
        looks=data.looks,
        equivalence=data.equivalence,
        family=data.family,
        development=table.development,
        scores=_table_scores(scored_columns[-1], components, single) if data.groups else None,
    )


def _places(
    columns: Sequence[SummaryColumn],
    values: Mapping[Named, Sequence[Mapping[int, float]]],
    unplaced: Collection[str],
    degenerate: Collection[tuple[Named, int]],
) -> list[dict[Named, Place | None]]:
    """Return the place of each row in each column; `unplaced` cells and what is degenerate have none."""
    means = {key: [Measured(one).mean for one in row] for key, row in values.items()}
    decimals = score_digits(mean for row in means.values() for mean in row if mean is not None)
    found = []
    for index, column in enumerate(columns):
        ranked = {
            key: row[index]
            for key, row in means.items()
            if key[0] not in unplaced and (key, index) not in degenerate
        }
        found.append(dict(zip(ranked, column.places([*ranked.values()], decimals), strict=True)))
    return found


def _ranks(
    columns: Sequence[SummaryColumn],
    values: Mapping[Named, Sequence[Mapping[int, float]]],
    unplaced: Collection[str],
    degenerate: Collection[tuple[Named, int]],
    data: StudyData,
) -> list[dict[Named, int | None]]:
    """Return the rank of each row in each column, among the rows with its labels on the axes of `ranks`."""
    found: list[dict[Named, int | None]] = [{} for _ in columns]
    if data.ranks is None:
        return found
    groups: dict[tuple[str, ...], list[Named]] = {}
    for cell in data.cells:
        labels = tuple(cell.labels[axis] for axis in data.ranks)
        groups.setdefault(labels, []).extend(key for key in values if key[0] == cell.name)
    for group in groups.values():
        for index, column in enumerate(columns):
            ranked = {
                key: Measured(values[key][index]).mean
                for key in group
                if key[0] not in unplaced and (key, index) not in degenerate
            }
            found[index] |= dict(zip(ranked, column.ranks([*ranked.values()]), strict=True))
    return found


def _reason(whys: Mapping[int, str], values: Mapping[int, float]) -> str:
    """Return why the seeds of a value are degenerate, and which ones, if not all."""
    if not whys:
        return ""
    reasons = "; ".join(dict.fromkeys(whys.values()))
    return reasons if len(whys) == len(values) else f"{reasons} (seed {', '.join(map(str, whys))})"


def _order(task: str, order: Sequence[str]) -> int:
    return len(order) + 1 if task == AVERAGE else order.index(task) if task in order else len(order)


def _row(
    cell: CellInfo, encoder: str, several: bool, cells: tuple[Measured, ...], stopped: bool
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


def _scored_columns(
    columns: Sequence[SummaryColumn], scores: Mapping[Named, Sequence[Mapping[int, Score]]]
) -> list[dict[Named, Scored]]:
    """Return row -> seed -> score of each column; none of costs, and none of an average of unlike metrics.

    The last column may be an average.
    """
    metrics = {column.metric for column in columns if not column.cost and not column.average}
    tasks = [
        {key: row[index] for key, row in scores.items()}
        for index, column in enumerate(columns)
        if not column.cost and not column.average
    ]
    found: list[dict[Named, Scored]] = []
    for index, column in enumerate(columns):
        of_column = {key: row[index] for key, row in scores.items()}
        if column.cost:
            found.append({})
        elif column.average and tasks:
            given = {key: of_row for key, of_row in of_column.items() if of_row}
            is_tested = bool(given) or len(metrics) == 1
            found.append(average_column(tasks, given) if is_tested else {})
        else:
            found.append({**of_column})
    return found


def _table_scores(
    column: Mapping[Named, Scored], components: ComponentStore, single: bool
) -> TableScores[Named]:
    """Return the scores of a table's last column; runs that were started alone have the same seed."""
    if single:
        column = {
            key: {0: next(iter(of_row.values()))} if of_row else of_row for key, of_row in column.items()
        }
    return TableScores(column, components)


def _judged(
    data: StudyData,
    columns: Sequence[SummaryColumn],
    scores: Sequence[Mapping[Named, Scored]],
    components: ComponentStore,
    single: bool,
) -> list[dict[Named, Judged]]:
    """Compare each row with that of the baseline's encoder of the same name, or its only one."""
    rows = list(dict.fromkeys(key for column in scores for key in column))
    of_baseline = [key for key in rows if key[0] == data.baseline]
    ends = [key for key in of_baseline if not key[1].endswith(START)] or of_baseline
    groups: dict[Named, list[Named]] = {}
    for cell, encoder in rows:
        against = next((key for key in of_baseline if key[1] == encoder), None)
        if against is None and len(ends) == 1 and not encoder.endswith(START):
            against = ends[0]
        if cell != data.baseline and against is not None:
            groups.setdefault(against, []).append((cell, encoder))
    result: list[dict[Named, Judged]] = [{} for _ in columns]
    for against, keys in groups.items():
        for index, column in enumerate(scores):
            if columns[index].cost:
                continue
            cells = {key: column.get(key, {}) for key in keys}
            result[index] |= judge_column(
                column.get(against, {}), cells, single=single, components=components
            )
    return [corrected(found, data.looks) for found in result]
