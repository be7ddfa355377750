"""Grouping of a study's comparable scores into tables.

A table has the scores of one evaluator and protocol id, either on development data or on other data. Each of
its columns has one metric under one protocol. The first table of an evaluator has the first metric of each
task; every further metric has a table of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

import attrs
from sentbed.protocols import Score

from sentbed_report.data_splits import is_development
from sentbed_report.formatting import first_names
from sentbed_report.score_protocols import (
    encoder_protocol,
    evaluation_protocol,
    unlike,
)
from sentbed_report.study.measurements import Measurement
from sentbed_report.tables.column import AVERAGE

Protocol: TypeAlias = dict[str, Any]
"""Metric and evaluation protocol of a column."""


@attrs.frozen
class EncoderInRun:
    """One encoder in one run of a cell. Its scores are what this module calls a row."""

    cell: str
    prompt: str
    seed: int
    encoder: str


@attrs.frozen
class TableKey:
    """What all scores of a table share."""

    evaluator: str
    protocol_id: str
    is_development: bool


@attrs.frozen
class NotCompared:
    """Tasks whose scores are in another table, because their protocols differ."""

    tasks: str
    """Names of the tasks."""
    differences: str
    """Protocol entries that differ, with the values of both tables."""


@attrs.define(eq=False)
class ComparableScores:
    """Scores that share a table. A table begins with one row's scores; those of other rows are added."""

    key: TableKey
    metric: str
    """Metric, if this is a table for a further metric; empty in the first table."""
    measured: list[Measurement] = attrs.field(factory=list)
    protocols: dict[str, Protocol] = attrs.field(factory=dict)
    """Task -> its metric and protocol in this table."""
    rows: set[EncoderInRun] = attrs.field(factory=set)
    """Rows that have scores in this table."""
    apart: str = ""
    """Protocol entries in which the table differs from other tables of the same evaluator and protocol id;
    empty if there are no such tables."""
    tasks_elsewhere: set[str] = attrs.field(factory=set)
    """Tasks of which some rows of this table have their score in another table, since the protocol differs."""
    left_out: dict[NotCompared, list[EncoderInRun]] = attrs.field(factory=dict)
    """Tasks with another protocol -> rows that have their scores of these tasks in another table, and their
    scores of other tasks in this table."""
    refused: dict[NotCompared, list[EncoderInRun]] = attrs.field(factory=dict)
    """Tasks with another protocol -> rows that have their scores of these tasks in another table, and no score
    in this table."""
    prompts: tuple[str, ...] = ()
    """Labels of the study's prompts."""

    def accepts(self, task: str, protocol: Protocol) -> bool:
        """Whether a score of the task can be added: the table has no other protocol for the task."""
        return self.protocols.get(task, protocol) == protocol

    def add(self, measurement: Measurement, protocol: Protocol) -> None:
        """Add a score that `accepts` has accepted."""
        self.measured.append(measurement)
        self.protocols.setdefault(measurement.score.task, protocol)
        self.rows.add(_row_of(measurement))

    def tasks_with_other_protocol(self, row: ComparableScores) -> list[str]:
        """Return the tasks of `row` that have another protocol in this table.

        If there are any, the average that an evaluator reports is one of them, since it is over all tasks.
        """
        tasks = []
        for task, protocol in row.protocols.items():
            if not self.accepts(task, protocol):
                tasks.append(task)
        if tasks and AVERAGE in row.protocols and AVERAGE not in tasks:
            tasks.append(AVERAGE)
        return tasks

    def take_from(self, row: ComparableScores) -> None:
        """Move the scores of `row` that can be compared into this table, and note why the others cannot.

        `row` has the scores of one row.
        """
        other_tasks = self.tasks_with_other_protocol(row)
        is_refused = len(other_tasks) == len(row.protocols)
        if other_tasks:
            differences = self._differences_of_tasks(row, other_tasks)
            reason = NotCompared(", ".join(other_tasks), ", ".join(differences))
            noted = self.left_out
            if is_refused:
                noted = self.refused
            noted.setdefault(reason, []).extend(row.rows)
        if is_refused:
            return

        self.tasks_elsewhere |= row.tasks_elsewhere
        rest = []
        for measurement in row.measured:
            task = measurement.score.task
            if task in other_tasks:
                rest.append(measurement)
            else:
                self.add(measurement, row.protocols[task])
                row.tasks_elsewhere.add(task)
        row.measured = rest
        row.protocols = {task: row.protocols[task] for task in other_tasks}

    def _differences_of_tasks(
        self, row: ComparableScores, tasks: Iterable[str]
    ) -> list[str]:
        """Return the protocol entries, with their values, in which tasks of `row` differ from this table."""
        differences: dict[str, None] = {}
        for task in tasks:
            protocol = row.protocols[task]
            protocol_here = self.protocols.get(task, protocol)
            for name, values in unlike(protocol_here, protocol):
                differences[f"{name} ({values})"] = None
        return list(differences)

    @property
    def notes(self) -> Iterator[str]:
        """Sentences on the rows' scores that are in another table, because their protocols differ."""
        for reason, rows in self.left_out.items():
            cells = _cells_with_all_prompts(rows, self.prompts)
            if cells:
                yield (
                    f"Not compared: {reason.tasks} of {first_names(cells)}, as the protocol differs in "
                    f"{reason.differences}; see the further table."
                )
        for reason, rows in chain(self.left_out.items(), self.refused.items()):
            cells = _cells_under_some_prompts(rows, self.prompts)
            if cells:
                yield (
                    f"Not compared: {reason.tasks} of {first_names(cells)}, as the protocol differs in "
                    f"{reason.differences}; a seed that lacks a score under one of the prompts does not count."
                )

    @property
    def has_means(self) -> bool:
        """Whether the table has any mean: a mean needs a seed with a score of the task under every prompt."""
        rows_of_tasks: dict[str, list[EncoderInRun]] = {}
        for measurement in self.measured:
            rows = rows_of_tasks.setdefault(measurement.score.task, [])
            rows.append(_row_of(measurement))

        return any(
            _cells_with_all_prompts(rows, self.prompts)
            for rows in rows_of_tasks.values()
        )


def _cells_with_all_prompts(
    rows: Iterable[EncoderInRun], prompts: Collection[str]
) -> list[str]:
    """Return the cells that have a seed with every prompt; in a study without prompts, all cells of `rows`."""
    prompts_of_seeds: dict[tuple[str, int, str], set[str]] = {}
    for row in rows:
        without_prompt = (row.cell, row.seed, row.encoder)
        prompts_of_seeds.setdefault(without_prompt, set()).add(row.prompt)

    cells: dict[str, None] = {}
    for (cell, _, _), prompts_of_seed in prompts_of_seeds.items():
        if prompts_of_seed.issuperset(prompts):
            cells[cell] = None
    return list(cells)


def _cells_under_some_prompts(
    rows: Iterable[EncoderInRun], prompts: Collection[str]
) -> list[str]:
    """Return `CELL under prompt PROMPT` for the cells that have no seed with every prompt."""
    complete = _cells_with_all_prompts(rows, prompts)
    prompts_of_cells: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.cell not in complete:
            prompts_of_cells.setdefault(row.cell, {})[row.prompt] = None

    cells = []
    for cell, prompts_of_cell in prompts_of_cells.items():
        cells.append(f"{cell} under prompt {', '.join(prompts_of_cell)}")
    return cells


def comparable_scores(
    measured: Iterable[Measurement], prompts: tuple[str, ...] = ()
) -> list[ComparableScores]:
    """Return the scores of each table, by evaluator and protocol; tables of development data come last.

    In a study with `prompts`, a table in which no seed has a score under every prompt is left out, unless it is
    the only table of its evaluator, protocol and metric.
    """
    tables: dict[tuple[str, str], list[ComparableScores]] = {}
    for metric, layer in _layers(measured):
        for table in _tables_of(layer, metric, prompts):
            name = (table.key.evaluator, table.key.protocol_id)
            tables.setdefault(name, []).append(table)
    return list(chain.from_iterable(tables.values()))


def _layers(measured: Iterable[Measurement]) -> Iterator[tuple[str, list[Measurement]]]:
    """Yield the scores in the first metric of every task, then the scores in each further metric.

    Each layer is a pair of a metric and its scores; for the first layer, the metric is empty. Two aggregations
    of one metric, which differ in their protocol names, count as two metrics.
    """
    rest = list(measured)
    is_first = True
    while rest:
        first_aggregations: dict[tuple[Any, ...], tuple[str, str]] = {}
        layers: dict[str, list[Measurement]] = {}
        later = []
        for measurement in rest:
            score = measurement.score
            layer = score.metric
            if is_first:
                layer = ""
            aggregation = (score.metric, score.protocol_name)
            place = (_row_of(measurement), _table_of(measurement), score.task, layer)
            if first_aggregations.setdefault(place, aggregation) == aggregation:
                layers.setdefault(layer, []).append(measurement)
            else:
                later.append(measurement)
        yield from layers.items()
        rest = later
        is_first = False


def _tables_of(
    layer: Sequence[Measurement],
    metric: str,
    prompts: tuple[str, ...],
) -> Iterator[ComparableScores]:
    """Yield the tables of one layer.

    A row's scores by one evaluator stay together in one table, except its scores of tasks for which this table
    has another protocol.
    """
    tables: dict[TableKey, list[ComparableScores]] = {}
    for row in _usual_first(_scores_of_rows(layer, metric, prompts)):
        _add_row(row, tables.setdefault(row.key, []))

    for siblings in tables.values():
        with_means = [table for table in siblings if table.has_means]
        kept = with_means or siblings[:1]
        for table in kept:
            others = [other for other in kept if other is not table]
            table.apart = _differences_of_table(table, others)
            yield table


def _scores_of_rows(
    layer: Iterable[Measurement],
    metric: str,
    prompts: tuple[str, ...],
) -> list[ComparableScores]:
    """Return the scores of each row by each evaluator.

    If a row has scores of one task under several protocols, the row is in the result once for each protocol.
    """
    scores_of_rows: dict[tuple[TableKey, EncoderInRun], list[ComparableScores]] = {}
    # Sorted, so that tables of development data come last.
    for measurement in sorted(layer, key=lambda each: is_development(each.score)):
        score = measurement.score
        table = _table_of(measurement)
        protocol = {"metric": score.metric, **evaluation_protocol(score)}
        key = (table, _row_of(measurement))
        scores_of_row = scores_of_rows.setdefault(key, [])
        # The latest entry comes first, as successive scores of a run come from the same evaluation.
        candidates = []
        for scores in reversed(scores_of_row):
            if _is_of_same_evaluation(scores, score, protocol):
                candidates.append(scores)
        if not candidates:
            candidates.append(ComparableScores(table, metric, prompts=prompts))
            scores_of_row += candidates
        _with_closest_encoder(candidates, score).add(measurement, protocol)
    return list(chain.from_iterable(scores_of_rows.values()))


def _with_closest_encoder(
    candidates: Sequence[ComparableScores], score: Score
) -> ComparableScores:
    """Return the candidate whose latest score has the encoder's protocol that is most like this score's.

    If tasks are scored one after the other, each with and without whitening, all scores with whitening stay
    together. The parts need not be equal, since a whitening may be fitted on the texts of its task.
    """
    if len(candidates) == 1:
        return candidates[0]
    protocol = encoder_protocol(score)

    def differences(scores: ComparableScores) -> int:
        latest = encoder_protocol(scores.measured[-1].score)
        return len(list(unlike(latest, protocol)))

    return min(candidates, key=differences)


def _is_of_same_evaluation(
    scores: ComparableScores, score: Score, protocol: Protocol
) -> bool:
    """Whether a score of a row may come from the evaluation that made the scores in `scores`.

    It does not if they have a score of its task under another protocol, be it only the encoder's part: an
    evaluator may score an encoder twice, such as with and without whitening.
    """
    if score.task not in scores.protocols:
        return True
    if not scores.accepts(score.task, protocol):
        return False
    earlier = next(
        measurement.score
        for measurement in scores.measured
        if measurement.score.task == score.task
    )
    return encoder_protocol(earlier) == encoder_protocol(score)


def _usual_first(rows: Sequence[ComparableScores]) -> list[ComparableScores]:
    """Return rows whose tasks all have their most frequent protocol, then the other rows.

    In another order, a row with an unusual protocol of a task could come first in a table. The scores of all
    other rows in this task would then move to a further table.
    """
    counts: dict[tuple[TableKey, str], Counter[str]] = {}
    for row in rows:
        for task, protocol in row.protocols.items():
            counts_of_task = counts.setdefault((row.key, task), Counter())
            counts_of_task[repr(protocol)] += 1

    usual = []
    unusual = []
    for row in rows:
        is_usual = True
        for task, protocol in row.protocols.items():
            counts_of_task = counts[row.key, task]
            if counts_of_task[repr(protocol)] < max(counts_of_task.values()):
                is_usual = False
        if is_usual:
            usual.append(row)
        else:
            unusual.append(row)
    return usual + unusual


def _add_row(row: ComparableScores, tables: list[ComparableScores]) -> None:
    """Add a row's scores to the first tables that accept them. Scores that none accepts become a new table."""
    for table in list(tables):
        # If a table already has scores of this row, they come from another evaluation of the same run.
        if table.rows.isdisjoint(row.rows):
            table.take_from(row)
            if not row.measured:
                return
    tables.append(row)


def _row_of(measurement: Measurement) -> EncoderInRun:
    run = measurement.run
    return EncoderInRun(
        measurement.cell.name, run.prompt, run.seed, measurement.score.encoder
    )


def _table_of(measurement: Measurement) -> TableKey:
    score = measurement.score
    return TableKey(score.evaluator, score.protocol_id, is_development(score))


def _differences_of_table(
    table: ComparableScores, others: Iterable[ComparableScores]
) -> str:
    """Return the protocol entries in which a table differs from `others`, with the table's values."""
    differences: dict[str, dict[str, dict[str, None]]] = {}
    for other in others:
        for task, protocol, other_protocol in _protocols_of_both(table, other):
            for name, values in unlike(protocol, other_protocol):
                values_of_tasks = differences.setdefault(name, {})
                values_of_tasks.setdefault(task, {})[f"({values})"] = None

    entries = []
    for name, values_of_tasks in differences.items():
        texts = list(map(" ".join, values_of_tasks.values()))
        entry = _entry(name, texts)
        if len(values_of_tasks) < len(table.protocols):
            entry += f" of {', '.join(values_of_tasks)}"
        entries.append(entry)
    return ", ".join(entries)


def _protocols_of_both(
    table: ComparableScores, other: ComparableScores
) -> Iterator[tuple[str, Protocol, Protocol]]:
    """Yield task, protocol in a table, and protocol in another table.

    The protocols are those of evaluations, and, of rows that both tables have, those of encoders.
    """
    for task, protocol in table.protocols.items():
        yield task, protocol, other.protocols.get(task, protocol)

    scores_of_other = {}
    for measurement in other.measured:
        score = measurement.score
        scores_of_other[_row_of(measurement), score.task] = score
    for measurement in table.measured:
        score = measurement.score
        other_score = scores_of_other.get((_row_of(measurement), score.task))
        if other_score is None:
            continue
        if score.protocol["encoder"] != other_score.protocol["encoder"]:
            yield score.task, encoder_protocol(score), encoder_protocol(other_score)


def _entry(name: str, values_of_tasks: Sequence[str]) -> str:
    """Return a protocol entry with its values; if they differ between tasks, with the first task's values."""
    first = values_of_tasks[0]
    if len(set(values_of_tasks)) > 1:
        first = f"{first.removesuffix(')')}, …)"
    return f"{name} {first}"
