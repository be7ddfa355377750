"""Grouping of a study's scores into tables, in which each column has one metric under one protocol.

A table has the scores of one evaluator and protocol id, either on development data or on other data. The first
table of an evaluator has the first metric of each task; every further metric has a table of its own. If a task
was scored under several protocols, those after the most frequent one are in further tables.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import attrs
from sentbed.protocols import Score

from sentbed_report.data_splits import is_development
from sentbed_report.score_protocols import (
    encoder_protocol,
    evaluation_protocol,
    protocol_hash,
    unlike,
)
from sentbed_report.study.measurements import Measurement
from sentbed_report.tables.column import AVERAGE


@attrs.frozen
class TableKey:
    """What all scores of a table, and of its variants for other protocols, share."""

    evaluator: str
    protocol_id: str
    is_development: bool
    metric: str = ""
    """Metric, if this is a table for a further metric; empty in the first table."""
    aggregation: str = ""
    """Protocol name, if this is a table for a further metric: a metric may be aggregated in two ways."""


@attrs.frozen(eq=False)
class ComparableScores:
    """Scores that share a table."""

    key: TableKey
    measured: tuple[Measurement, ...]
    apart: str = ""
    """Protocol entries in which the table differs from those with the same key; empty if there are none."""
    tasks_of_key: frozenset[str] = frozenset()
    """Tasks of all tables with the same key."""

    @cached_property
    def tasks(self) -> dict[str, Score]:
        """Task -> its first score, whose metric and protocol all scores of the task have."""
        tasks: dict[str, Score] = {}
        for measurement in self.measured:
            tasks.setdefault(measurement.score.task, measurement.score)
        return tasks

    @cached_property
    def skipped(self) -> list[str]:
        """Tasks that are not in the table because the evaluator skipped them for lack of data."""
        skipped: dict[str, None] = {}
        for measurement in self.measured:
            skipped |= dict.fromkeys(measurement.score.skipped)
        return [task for task in skipped if task not in self.tasks]


def comparable_scores(measured: Iterable[Measurement]) -> list[ComparableScores]:
    """Return the scores of each table; of an evaluator, tables of development data come last."""
    by_name: defaultdict[tuple[str, str], list[ComparableScores]] = defaultdict(list)
    for key, group in _groups(measured).items():
        tasks = frozenset(measurement.score.task for measurement in group)
        tables = []
        for scores in _by_protocol(group):
            table = ComparableScores(key, tuple(scores), tasks_of_key=tasks)
            tables.append(table)

        name = (key.evaluator, key.protocol_id)
        for table in tables:
            apart = _differences(table, tables)
            by_name[name].append(attrs.evolve(table, apart=apart))

    return list(chain.from_iterable(by_name.values()))


def _groups(measured: Iterable[Measurement]) -> dict[TableKey, list[Measurement]]:
    """Return the scores by what those of a table share; scores on development data come last."""
    measured = sorted(measured, key=lambda each: is_development(each.score))
    groups: defaultdict[TableKey, list[Measurement]] = defaultdict(list)
    first_metrics: dict[tuple[Any, ...], tuple[str, str]] = {}
    for measurement in measured:
        score = measurement.score
        metric = (score.metric, score.protocol_name)
        key = TableKey(score.evaluator, score.protocol_id, is_development(score))
        task_of_run = (key, measurement.row, measurement.replicate, score.task)
        first_metric = first_metrics.setdefault(task_of_run, metric)
        if metric != first_metric:
            key = attrs.evolve(
                key,
                metric=score.metric,
                aggregation=score.protocol_name,
            )
        groups[key].append(measurement)

    return groups


def _by_protocol(measured: Sequence[Measurement]) -> list[list[Measurement]]:
    """Return the scores of each table: of every task, those under one protocol, the most frequent one first.

    If a run has several scores of a task under one protocol, such as with and without whitening, they are in
    several tables. An average that the evaluator reports has the protocols of its tasks.
    """
    averages_last = sorted(measured, key=lambda each: each.score.task == AVERAGE)
    repetitions: Counter[Any] = Counter()
    protocols_of_run: defaultdict[Any, list[str]] = defaultdict(list)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    protocols = []
    for measurement in averages_last:
        score = measurement.score
        run = (measurement.row, measurement.replicate)
        protocol = f"{score.task} {protocol_hash(_protocol(score))}"
        if score.task == AVERAGE:
            protocol += str(sorted(protocols_of_run[run]))
        repeated = (run, protocol)
        repetitions[repeated] += 1
        protocol += f" {repetitions[repeated]}"

        if score.task != AVERAGE:
            protocols_of_run[run].append(protocol)
        counts[score.task][protocol] += 1
        protocols.append(protocol)

    places: dict[str, int] = {}
    for of_task in counts.values():
        for place, (protocol, _) in enumerate(of_task.most_common()):
            places[protocol] = place

    tables: defaultdict[int, list[Measurement]] = defaultdict(list)
    for measurement, protocol in zip(averages_last, protocols, strict=True):
        tables[places[protocol]].append(measurement)
    return [tables[place] for place in sorted(tables)]


def _differences(table: ComparableScores, tables: Iterable[ComparableScores]) -> str:
    """Return the protocol entries in which a table differs from others, as `NAME (VALUE against OTHER VALUE)`.

    Entries of encoders are compared only if the protocols of evaluations are equal.
    """
    differences: dict[str, None] = {}
    for other in tables:
        entries: list[tuple[str, str]] = []
        for task, score in table.tasks.items():
            score_of_other = other.tasks.get(task, score)
            entries += unlike(_protocol(score), _protocol(score_of_other))

        if not entries:
            encoder = encoder_protocol(table.measured[0].score)
            entries += unlike(encoder, encoder_protocol(other.measured[0].score))
        for name, values in entries:
            differences[f"{name} ({values})"] = None
    return ", ".join(differences)


def _protocol(score: Score) -> dict[str, Any]:
    """Return metric and evaluation protocol of a score, which are the same in all of a column."""
    return {"metric": score.metric, **evaluation_protocol(score)}
