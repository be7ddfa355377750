"""Grouping of a study's comparable scores into tables.

A table holds one evaluator and protocol id, either on development data or on others; each of its columns one
metric under one protocol. The first table of an evaluator has the first metric of each task, and of each
further metric there is a further table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

import attrs

from sentbed_report.comparability import evaluation_protocol, unlike
from sentbed_report.data_splits import is_development
from sentbed_report.formatting import first_names
from sentbed_report.study.measurements import Measurement
from sentbed_report.tables.column import AVERAGE

Protocol: TypeAlias = dict[str, Any]
"""Metric and evaluation protocol of a column."""


Row: TypeAlias = tuple[str, str, int, str]
"""Cell, prompt, seed and encoder."""


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
    rows: set[Row] = attrs.field(factory=set)
    """Whose scores these are."""
    apart: str = ""
    """In what it differs from other tables of the same evaluator and protocol id; empty if there are none."""
    tasks_elsewhere: set[str] = attrs.field(factory=set)
    """Tasks of its rows that another table has, as they may be compared there."""
    left_out: dict[tuple[str, str], dict[Row, None]] = attrs.field(factory=dict)
    """Tasks of its rows that another table has, as they may not be compared, and why -> whose they are."""
    refused: dict[tuple[str, str], dict[Row, None]] = attrs.field(factory=dict)
    """Like `left_out`, of runs of which it has no score."""
    prompts: tuple[str, ...] = ()
    """Labels of the study's prompts."""

    def takes(self, task: str, protocol: Protocol) -> bool:
        """Whether a score may be added: its task has no other protocol here."""
        return self.protocols.get(task, protocol) == protocol

    def add(self, measurement: Measurement, protocol: Protocol) -> None:
        """Add a score that it takes."""
        self.measured.append(measurement)
        self.protocols.setdefault(measurement.score.task, protocol)
        self.rows.add(_row_of(measurement))

    def unlike_tasks(self, part: ComparableScores) -> list[str]:
        """Return the tasks of a row that have another protocol here.

        The average that an evaluator gives is over all tasks, and is unlike where one of them is.
        """
        unlike_here = [
            task
            for task, protocol in part.protocols.items()
            if not self.takes(task, protocol)
        ]
        if unlike_here and AVERAGE in part.protocols and AVERAGE not in unlike_here:
            unlike_here.append(AVERAGE)
        return unlike_here

    def take_from(self, part: ComparableScores) -> None:
        """Take the scores of a row that may be compared, and note why the others may not."""
        left = self.unlike_tasks(part)
        is_refused = len(left) == len(part.protocols)
        if left:
            reasons: dict[str, None] = {}
            for task in left:
                protocol = part.protocols[task]
                for name, values in unlike(
                    self.protocols.get(task, protocol), protocol
                ):
                    reasons[f"{name} ({values})"] = None
            key = ", ".join(left), ", ".join(reasons)
            noted = self.refused if is_refused else self.left_out
            noted.setdefault(key, {}).update(dict.fromkeys(sorted(part.rows)))
        if is_refused:
            return
        self.tasks_elsewhere |= part.tasks_elsewhere
        rest = []
        for measurement in part.measured:
            task = measurement.score.task
            if task in left:
                rest.append(measurement)
            else:
                self.add(measurement, part.protocols[task])
                part.tasks_elsewhere.add(task)
        part.measured = rest
        part.protocols = {task: part.protocols[task] for task in left}

    @property
    def notes(self) -> Iterator[str]:
        """Sentences on the scores of its rows that are not compared, as their protocols differ."""
        for (tasks, reason), rows in self.left_out.items():
            cells = _cells_with_all_prompts(rows, self.prompts)
            if cells:
                yield (
                    f"Not compared: {tasks} of {first_names(cells)}, as the protocol differs in {reason}; "
                    "see the further table."
                )
        for noted in (self.left_out, self.refused):
            for (tasks, reason), rows in noted.items():
                places = _cells_under_some_prompts(rows, self.prompts)
                if places:
                    yield (
                        f"Not compared: {tasks} of {first_names(places)}, as the protocol differs in "
                        f"{reason}; a seed that lacks a score under one of the prompts does not count."
                    )

    @property
    def has_means(self) -> bool:
        """Whether a task has a score of a seed under each of the prompts."""
        prompts: dict[tuple[str, int, str, str], set[str]] = {}
        for measurement in self.measured:
            cell, prompt, seed, encoder = _row_of(measurement)
            prompts.setdefault(
                (cell, seed, encoder, measurement.score.task), set()
            ).add(prompt)
        return any(of_seed.issuperset(self.prompts) for of_seed in prompts.values())


def _cells_with_all_prompts(rows: Iterable[Row], prompts: Collection[str]) -> list[str]:
    """Return the cells of which a seed is there under each of the prompts; all in a study without prompts."""
    prompts_of_seeds: dict[tuple[str, int, str], set[str]] = {}
    for cell, prompt, seed, encoder in rows:
        prompts_of_seeds.setdefault((cell, seed, encoder), set()).add(prompt)
    cells: dict[str, None] = {}
    for (cell, *_), of_seed in prompts_of_seeds.items():
        if of_seed.issuperset(prompts):
            cells[cell] = None
    return list(cells)


def _cells_under_some_prompts(
    rows: Iterable[Row], prompts: Collection[str]
) -> list[str]:
    """Return `CELL under prompt PROMPT` for the other cells; none in a study without prompts."""
    whole = _cells_with_all_prompts(rows, prompts)
    prompts_of_cells: dict[str, dict[str, None]] = {}
    for cell, prompt, _, _ in rows:
        if cell not in whole:
            prompts_of_cells.setdefault(cell, {})[prompt] = None
    return [
        f"{cell} under prompt {', '.join(of_cell)}"
        for cell, of_cell in prompts_of_cells.items()
    ]


def comparable_scores(
    measured: Iterable[Measurement], prompts: tuple[str, ...] = ()
) -> list[ComparableScores]:
    """Return the scores of each table, in the order of evaluators and protocols; development data last.

    In a study with `prompts`, a further table in which no seed has a score under all of them is left out.
    """
    tables: list[ComparableScores] = []
    for metric, layer in _layers(measured):
        tables += _tables_of(layer, metric, prompts)
    order = list(
        dict.fromkeys((table.evaluator, table.protocol_id) for table in tables)
    )
    return sorted(
        tables, key=lambda table: order.index((table.evaluator, table.protocol_id))
    )


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


def _tables_of(
    layer: Sequence[Measurement], metric: str, prompts: tuple[str, ...]
) -> Iterator[ComparableScores]:
    """Yield the tables of one layer.

    What a run has of an evaluator stands together, but for tasks that have another protocol there.
    """
    parts: dict[tuple[Any, ...], list[ComparableScores]] = {}
    for measurement in sorted(
        layer, key=lambda measurement: is_development(measurement.score)
    ):
        score = measurement.score
        protocol = {"metric": score.metric, **evaluation_protocol(score)}
        of_row = parts.setdefault((*_table_of(measurement), *_row_of(measurement)), [])
        # The latest first: what follows each other in a run was scored together.
        part = next(
            (part for part in reversed(of_row) if part.takes(score.task, protocol)),
            None,
        )
        if part is None:
            part = ComparableScores(*_table_of(measurement), metric, prompts=prompts)
            of_row.append(part)
        part.add(measurement, protocol)
    tables: dict[tuple[str, str, bool], list[ComparableScores]] = {}
    for part in _usual_first(list(chain.from_iterable(parts.values()))):
        siblings = tables.setdefault(
            (part.evaluator, part.protocol_id, part.is_development), []
        )
        _add_part(part, siblings)
    for siblings in tables.values():
        kept = [table for table in siblings if table.has_means] or siblings[:1]
        for table in kept:
            others = [other for other in kept if other is not table]
            table.apart = _differences(table, others)
            yield table


def _usual_first(parts: Sequence[ComparableScores]) -> list[ComparableScores]:
    """Return what rows have of evaluators, last that with a protocol that fewer rows have than another.

    Otherwise, one row with another protocol of a task would take this task from the table of all others.
    """
    counts: dict[tuple[Any, ...], Counter[str]] = {}
    keys = []
    for part in parts:
        of_table = (part.evaluator, part.protocol_id, part.is_development)
        of_part = {
            (*of_table, task): repr(protocol)
            for task, protocol in part.protocols.items()
        }
        for task, protocol in of_part.items():
            counts.setdefault(task, Counter())[protocol] += 1
        keys.append(of_part)
    most = {task: max(of_task.values()) for task, of_task in counts.items()}
    usual, unusual = [], []
    for part, of_part in zip(parts, keys, strict=True):
        if all(
            counts[task][protocol] == most[task] for task, protocol in of_part.items()
        ):
            usual.append(part)
        else:
            unusual.append(part)
    return usual + unusual


def _add_part(part: ComparableScores, tables: list[ComparableScores]) -> None:
    """Add what a run has of an evaluator to the first of these tables that take it, or as a new one."""
    # A table that has the row already has it from another evaluation of the same run.
    free = [table for table in tables if table.rows.isdisjoint(part.rows)]
    for table in free:
        table.take_from(part)
        if not part.measured:
            return
    tables.append(part)


def _row_of(measurement: Measurement) -> Row:
    run = measurement.run
    return measurement.cell.name, run.prompt, run.seed, measurement.score.encoder


def _table_of(measurement: Measurement) -> tuple[str, str, bool]:
    score = measurement.score
    return score.evaluator, score.protocol_id, is_development(score)


def _differences(table: ComparableScores, others: Iterable[ComparableScores]) -> str:
    """Return the protocol entries in which a table differs from others, with its own values."""
    differences: dict[str, dict[str, dict[str, None]]] = {}
    for other in others:
        for task in table.protocols:
            if task not in other.protocols:
                continue
            for name, values in unlike(table.protocols[task], other.protocols[task]):
                differences.setdefault(name, {}).setdefault(task, {})[f"({values})"] = (
                    None
                )
    entries = [
        _entry(name, tasks, len(table.protocols)) for name, tasks in differences.items()
    ]
    return ", ".join(entries)


def _entry(name: str, tasks: dict[str, dict[str, None]], number_of_tasks: int) -> str:
    """Return an entry with its values, of the first task where they differ, and its tasks, if not all."""
    values = list(dict.fromkeys(" ".join(of_task) for of_task in tasks.values()))
    text = f"{name} {values[0]}"
    if len(values) > 1:
        text = f"{name} {values[0].removesuffix(')')}, …)"
    return text if len(tasks) == number_of_tasks else f"{text} of {', '.join(tasks)}"
