"""Grouping of a study's comparable scores into tables.

A table holds one evaluator and protocol id, either on development data or on others; each of its columns one
metric under one protocol. The first table of an evaluator has the first metric of each task, and of each
further metric there is a further table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs

from sentbed_report.comparability import evaluation_protocol, unlike
from sentbed_report.data_splits import is_development
from sentbed_report.study.measurements import Measurement

Protocol: TypeAlias = dict[str, Any]
"""Metric and evaluation protocol of a column."""


@attrs.define(eq=False)
class ComparableScores:
    """Scores that share a table."""

    evaluator: str
    protocol_id: str
    is_development: bool
    metric: str
    """The metric of a further table; empty in the first."""
    measured: list[Measurement] = attrs.field(factory=list)
    protocols: dict[str, Protocol] = attrs.field(factory=dict)
    """Task -> metric and protocol."""
    apart: str = ""
    """In what it differs from other tables of the same evaluator and protocol id; empty if there are none."""

    def takes(self, task: str, protocol: Protocol) -> bool:
        """Whether a score may be added: its task has no other protocol here."""
        return self.protocols.get(task, protocol) == protocol

    def add(self, measurement: Measurement, protocol: Protocol) -> None:
        """Add a score that it takes."""
        self.measured.append(measurement)
        self.protocols.setdefault(measurement.score.task, protocol)

    def fits(self, other: ComparableScores) -> bool:
        """Whether all tasks that both have are under one protocol."""
        return all(self.takes(task, protocol) for task, protocol in other.protocols.items())

    def join(self, other: ComparableScores) -> None:
        """Add the scores of another row, which fit."""
        self.measured += other.measured
        self.protocols |= other.protocols


def comparable_scores(measured: Iterable[Measurement]) -> list[ComparableScores]:
    """Return the scores of each table, in the order of evaluators and protocols; development data last."""
    tables: list[ComparableScores] = []
    for metric, layer in _layers(measured):
        tables += _tables_of(layer, metric)
    order = list(dict.fromkeys((table.evaluator, table.protocol_id) for table in tables))
    return sorted(tables, key=lambda table: order.index((table.evaluator, table.protocol_id)))


def _layers(measured: Iterable[Measurement]) -> Iterator[tuple[str, list[Measurement]]]:
    """Yield the first metric of every task, as the metric "", then the further ones, a metric at a time.

    Two aggregations of one metric are two metrics.
    """
    rest = list(measured)
    is_first = True
    while rest:
        names: dict[tuple[Any, ...], tuple[str, str]] = {}
        layers: dict[str, list[Measurement]] = {}
        later = []
        for measurement in rest:
            score = measurement.score
            metric = "" if is_first else score.metric
            name = (score.metric, score.protocol_name)
            place = (*_row_of(measurement), *_table_of(measurement), score.task, metric)
            if names.setdefault(place, name) == name:
                layers.setdefault(metric, []).append(measurement)
            else:
                later.append(measurement)
        yield from layers.items()
        rest = later
        is_first = False


def _tables_of(layer: Sequence[Measurement], metric: str) -> Iterator[ComparableScores]:
    """Yield the tables of one layer.

    What a run has of an evaluator stays together, unless it has one task under two protocols.
    """
    parts: dict[tuple[Any, ...], list[ComparableScores]] = {}
    for measurement in sorted(layer, key=lambda measurement: is_development(measurement.score)):
        score = measurement.score
        protocol = {"metric": score.metric, **evaluation_protocol(score)}
        of_row = parts.setdefault((*_table_of(measurement), *_row_of(measurement)), [])
        # The latest first: what follows each other in a run was scored together.
        part = next((part for part in reversed(of_row) if part.takes(score.task, protocol)), None)
        if part is None:
            part = ComparableScores(*_table_of(measurement), metric)
            of_row.append(part)
        part.add(measurement, protocol)
    tables: dict[tuple[str, str, bool], list[ComparableScores]] = {}
    for of_row in parts.values():
        for part in of_row:
            siblings = tables.setdefault((part.evaluator, part.protocol_id, part.is_development), [])
            table = next((table for table in siblings if table.fits(part)), None)
            if table is None:
                siblings.append(part)
            else:
                table.join(part)
    for siblings in tables.values():
        for table in siblings:
            others = [other for other in siblings if other is not table]
            table.apart = _differences(table, others)
            yield table


def _row_of(measurement: Measurement) -> tuple[str, str, int, str]:
    run = measurement.run
    return measurement.cell.name, run.prompt, run.seed, measurement.score.encoder


def _table_of(measurement: Measurement) -> tuple[str, str, bool]:
    score = measurement.score
    return score.evaluator, score.protocol_id, is_development(score)


def _differences(table: ComparableScores, others: Iterable[ComparableScores]) -> str:
    """Return the protocol entries in which a table differs from others, with its own values."""
    differences: dict[str, dict[str, dict[str, None]]] = {}
    shared: dict[str, None] = {}
    for other in others:
        for task in table.protocols:
            if task not in other.protocols:
                continue
            shared[task] = None
            for entry in unlike(table.protocols[task], other.protocols[task]):
                name, _, values = entry.replace("`", "").partition(" (")
                differences.setdefault(name, {}).setdefault(task, {})[f"({values}"] = None
    entries = [_entry(name, tasks, len(shared)) for name, tasks in differences.items()]
    return ", ".join(entries)


def _entry(name: str, tasks: dict[str, dict[str, None]], shared: int) -> str:
    """Return an entry with its values, of the first task where they differ, and its tasks, if not all."""
    values = list(dict.fromkeys(" ".join(of_task) for of_task in tasks.values()))
    text = f"{name} {values[0]}"
    if len(values) > 1:
        text = f"{name} {values[0].removesuffix(')')}, …)"
    return text if len(tasks) == shared else f"{text} of {', '.join(tasks)}"
