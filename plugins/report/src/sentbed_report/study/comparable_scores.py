"""Grouping of a study's scores into tables, in which each column has one metric under one protocol.

A table has the scores of one evaluator and protocol id, either on development data or on other data. The first
table of an evaluator has the first metric of each task; every further metric has a table of its own. If a task
was scored under several protocols, the scores under the most frequent one are in the first table, and those
under each further protocol are in a further table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import attrs

from sentbed_report.data_splits import is_development
from sentbed_report.score_protocols import (
    encoder_protocol,
    evaluation_protocol,
    unlike,
)
from sentbed_report.study.measurements import Measurement
from sentbed_report.tables.column import AVERAGE

Protocol: TypeAlias = dict[str, Any]
"""Metric and evaluation protocol of a column."""

_Row: TypeAlias = tuple[str, str, int, str]
"""Cell, prompt, seed and encoder, which identify an encoder in a run."""


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
    protocols: Mapping[str, Protocol]
    """Task -> its metric and protocol in this table."""
    apart: str = ""
    """Protocol entries in which the table differs from those with the same key; empty if there are none."""
    tasks_elsewhere: frozenset[str] = frozenset()
    """Tasks that are only in other tables with the same key."""


def comparable_scores(measured: Iterable[Measurement]) -> list[ComparableScores]:
    """Return the scores of each table, by evaluator and protocol; tables of development data come last."""
    by_name: defaultdict[tuple[str, str], list[ComparableScores]] = defaultdict(list)
    for key, group in _groups(measured).items():
        name = (key.evaluator, key.protocol_id)
        by_name[name] += _tables_of_group(key, group)
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
        task_of_row = (key, _row_of(measurement), score.task)
        first_metric = first_metrics.setdefault(task_of_row, metric)
        if metric != first_metric:
            name, aggregation = metric
            key = attrs.evolve(key, metric=name, aggregation=aggregation)
        groups[key].append(measurement)
    return groups


def _tables_of_group(
    key: TableKey, measured: Sequence[Measurement]
) -> list[ComparableScores]:
    """Return a table for the most frequent protocol of each task, then one for each further protocol."""
    variants = _protocol_variants(measured)
    tables = []
    for variant in range(max(variants) + 1):
        scores = []
        protocols: dict[str, Protocol] = {}
        for measurement, variant_of_score in zip(measured, variants, strict=True):
            if variant_of_score != variant:
                continue
            score = measurement.score
            scores.append(measurement)
            if score.task not in protocols:
                protocol = {"metric": score.metric, **evaluation_protocol(score)}
                protocols[score.task] = protocol
        tables.append(ComparableScores(key, tuple(scores), protocols))

    if len(tables) == 1:
        return tables

    tasks = {measurement.score.task for measurement in measured}
    described = []
    for table in tables:
        others = [other for other in tables if other is not table]
        apart = _differences(table, others)
        tasks_elsewhere = frozenset(tasks - table.protocols.keys() - {AVERAGE})
        described.append(
            attrs.evolve(table, apart=apart, tasks_elsewhere=tasks_elsewhere)
        )
    return described


def _protocol_variants(measured: Sequence[Measurement]) -> list[int]:
    """Return the place of each score's protocol among those of its task, 0 for the most frequent one."""
    identities = _protocol_identities(measured)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for measurement, identity in zip(measured, identities, strict=True):
        task = measurement.score.task
        counts[task][identity] += 1

    places: dict[tuple[str, str], int] = {}
    for task, counts_of_task in counts.items():
        for place, (identity, _) in enumerate(counts_of_task.most_common()):
            places[task, identity] = place

    variants = []
    for measurement, identity in zip(measured, identities, strict=True):
        task = measurement.score.task
        variants.append(places[task, identity])
    return variants


def _protocol_identities(measured: Sequence[Measurement]) -> list[str]:
    """Return a text for each score that is equal for scores whose protocols are equal.

    If a run has several scores of a task under one protocol, such as with and without whitening, their texts
    differ by a number. The text of an average that the evaluator reports has the protocols of its tasks too.
    """
    protocols_of_rows: defaultdict[_Row, list[str]] = defaultdict(list)
    protocols = []
    for measurement in measured:
        score = measurement.score
        row = _row_of(measurement)
        protocol = repr([score.task, score.metric, evaluation_protocol(score)])
        protocols.append(protocol)
        protocols_of_rows[row].append(protocol)

    identities = []
    repetitions: Counter[tuple[_Row, str]] = Counter()
    for measurement, protocol in zip(measured, protocols, strict=True):
        row = _row_of(measurement)
        repetition = repetitions[row, protocol]
        repetitions[row, protocol] += 1
        identity = f"{protocol} {repetition}"
        if measurement.score.task == AVERAGE:
            identity += "".join(sorted(protocols_of_rows[row]))
        identities.append(identity)
    return identities


def _row_of(measurement: Measurement) -> _Row:
    """Return what identifies the encoder of a score."""
    cell = measurement.cell
    run = measurement.run
    score = measurement.score
    return cell.name, run.prompt, run.seed, score.encoder


def _differences(table: ComparableScores, others: Iterable[ComparableScores]) -> str:
    """Return the protocol entries in which a table differs from others, as `NAME (VALUE against OTHER VALUE)`.

    Entries of encoders are compared only if the protocols of evaluations are equal.
    """
    differences: dict[str, None] = {}
    for other in others:
        entries: list[tuple[str, str]] = []
        for task, protocol in table.protocols.items():
            entries += unlike(protocol, other.protocols.get(task, protocol))
        if not entries:
            encoder = encoder_protocol(table.measured[0].score)
            entries += unlike(encoder, encoder_protocol(other.measured[0].score))
        for name, values in entries:
            differences[f"{name} ({values})"] = None
    return ", ".join(differences)
