"""Grouping of a study's comparable scores into tables.

A table has the scores of one evaluator and protocol id, either on development data or on other data. Each of
its columns has one metric under one protocol. The first table of an evaluator has the first metric of each
task; each further metric has a further table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

import attrs

from sentbed_report.data_splits import is_development
from sentbed_report.formatting import first_names
from sentbed_report.score_protocols import evaluation_protocol, unlike
from sentbed_report.study.measurements import Measurement
from sentbed_report.tables.column import AVERAGE

Protocol: TypeAlias = dict[str, Any]
"""Metric and evaluation protocol of a column."""


Row: TypeAlias = tuple[str, str, int, str]
"""Cell, prompt, seed and encoder: an encoder of a run."""


@attrs.define(eq=False)
class ComparableScores:
    """Scores that share a table."""

    evaluator: str
    protocol_id: str
    is_development: bool
    metric: str
    """Metric of a further table; empty in the first table."""
    measured: list[Measurement] = attrs.field(factory=list)
    protocols: dict[str, Protocol] = attrs.field(factory=dict)
    """Task -> metric and protocol."""
    rows: set[Row] = attrs.field(factory=set)
    """Runs and encoders that have scores in this table."""
    apart: str = ""
    """Protocol entries that differ from other tables of the same evaluator and protocol id; empty without
    other tables."""
    tasks_elsewhere: set[str] = attrs.field(factory=set)
    """Tasks of its rows that are in another table, where they can be compared."""
    left_out: dict[tuple[str, str], dict[Row, None]] = attrs.field(factory=dict)
    """Tasks that cannot be compared here and are in another table, with the reason -> rows that have them."""
    refused: dict[tuple[str, str], dict[Row, None]] = attrs.field(factory=dict)
    """Like `left_out`, for rows without any score in this table."""
    prompts: tuple[str, ...] = ()
    """Labels of the study's prompts."""

    def accepts(self, task: str, protocol: Protocol) -> bool:
        """Whether a score can be added, because its task does not have another protocol in this table."""
        return self.protocols.get(task, protocol) == protocol

    def add(self, measurement: Measurement, protocol: Protocol) -> None:
        """Add an accepted score."""
        self.measured.append(measurement)
        self.protocols.setdefault(measurement.score.task, protocol)
        self.rows.add(_row_of(measurement))

    def tasks_with_other_protocol(self, part: ComparableScores) -> list[str]:
        """Return the tasks of `part` that have another protocol in this table.

        They include the average that an evaluator reports if they include any task, as it is over all tasks.
        """
        tasks = []
        for task, protocol in part.protocols.items():
            if not self.accepts(task, protocol):
                tasks.append(task)
        if tasks and AVERAGE in part.protocols and AVERAGE not in tasks:
            tasks.append(AVERAGE)
        return tasks

    def take_from(self, part: ComparableScores) -> None:
        """Move the scores of a row that can be compared here, and note why the others cannot."""
        others = self.tasks_with_other_protocol(part)
        is_refused = len(others) == len(part.protocols)
        if others:
            key = ", ".join(others), ", ".join(self._differences(part, others))
            noted = self.refused if is_refused else self.left_out
            noted.setdefault(key, {}).update(dict.fromkeys(sorted(part.rows)))
        if is_refused:
            return

        self.tasks_elsewhere |= part.tasks_elsewhere
        rest = []
        for measurement in part.measured:
            task = measurement.score.task
            if task in others:
                rest.append(measurement)
            else:
                self.add(measurement, part.protocols[task])
                part.tasks_elsewhere.add(task)
        part.measured = rest
        part.protocols = {task: part.protocols[task] for task in others}

    def _differences(
        self, part: ComparableScores, tasks: Iterable[str]
    ) -> dict[str, None]:
        """Return the protocol entries of tasks in which `part` differs from this table, with their values."""
        differences: dict[str, None] = {}
        for task in tasks:
            protocol = part.protocols[task]
            for name, values in unlike(self.protocols.get(task, protocol), protocol):
                differences[f"{name} ({values})"] = None
        return differences

    @property
    def notes(self) -> Iterator[str]:
        """Sentences on the scores of its rows that are not compared because their protocols differ."""
        for (tasks, reason), rows in self.left_out.items():
            cells = _cells_with_all_prompts(rows, self.prompts)
            if cells:
                yield (
                    f"Not compared: {tasks} of {first_names(cells)}, as the protocol differs in {reason}; "
                    "see the further table."
                )
        for (tasks, reason), rows in chain(self.left_out.items(), self.refused.items()):
            places = _cells_under_some_prompts(rows, self.prompts)
            if places:
                yield (
                    f"Not compared: {tasks} of {first_names(places)}, as the protocol differs in "
                    f"{reason}; a seed that lacks a score under one of the prompts does not count."
                )

    @property
    def has_means(self) -> bool:
        """Whether any task has scores of a seed under every prompt."""
        rows_of_tasks: dict[str, list[Row]] = {}
        for measurement in self.measured:
            rows = rows_of_tasks.setdefault(measurement.score.task, [])
            rows.append(_row_of(measurement))
        return any(
            _cells_with_all_prompts(rows, self.prompts)
            for rows in rows_of_tasks.values()
        )


def _cells_with_all_prompts(rows: Iterable[Row], prompts: Collection[str]) -> list[str]:
    """Return the cells that have a seed with every prompt; all cells in a study without prompts."""
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
    """Return `CELL under prompt PROMPT` for the other cells; empty in a study without prompts."""
    complete = _cells_with_all_prompts(rows, prompts)
    prompts_of_cells: dict[str, dict[str, None]] = {}
    for cell, prompt, _, _ in rows:
        if cell not in complete:
            prompts_of_cells.setdefault(cell, {})[prompt] = None
    places = []
    for cell, prompts_of_cell in prompts_of_cells.items():
        places.append(f"{cell} under prompt {', '.join(prompts_of_cell)}")
    return places


def comparable_scores(
    measured: Iterable[Measurement], prompts: tuple[str, ...] = ()
) -> list[ComparableScores]:
    """Return the scores of each table, in the order of evaluators and protocols; development data last.

    In a study with `prompts`, a further table in which no seed has a score under every prompt is left out.
    """
    tables: dict[tuple[str, str], list[ComparableScores]] = {}
    for metric, layer in _layers(measured):
        for table in _tables_of(layer, metric, prompts):
            key = (table.evaluator, table.protocol_id)
            tables.setdefault(key, []).append(table)
    return list(chain.from_iterable(tables.values()))


def _layers(measured: Iterable[Measurement]) -> Iterator[tuple[str, list[Measurement]]]:
    """Yield the scores by the first metric of every task, with the name "", then by each further metric.

    Two aggregations of one metric, whose protocol names differ, count as two metrics.
    """
    rest = list(measured)
    is_first = True
    while rest:
        first_names_of: dict[tuple[Any, ...], tuple[str, str]] = {}
        layers: dict[str, list[Measurement]] = {}
        later = []
        for measurement in rest:
            score = measurement.score
            metric = "" if is_first else score.metric
            name = (score.metric, score.protocol_name)
            place = (*_row_of(measurement), *_table_of(measurement), score.task, metric)
            if first_names_of.setdefault(place, name) == name:
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

    The scores of a row by one evaluator are kept together, except for tasks that have another protocol in
    the table.
    """
    tables: dict[tuple[str, str, bool], list[ComparableScores]] = {}
    for part in _usual_first(_parts_of_rows(layer, metric, prompts)):
        key = (part.evaluator, part.protocol_id, part.is_development)
        _add_part(part, tables.setdefault(key, []))
    for siblings in tables.values():
        kept = [table for table in siblings if table.has_means] or siblings[:1]
        for table in kept:
            table.apart = _differences(table, kept)
            yield table


def _parts_of_rows(
    layer: Iterable[Measurement], metric: str, prompts: tuple[str, ...]
) -> list[ComparableScores]:
    """Return the scores of each row and evaluator, in several parts if a task has several protocols."""
    parts: dict[tuple[Any, ...], list[ComparableScores]] = {}
    for measurement in sorted(layer, key=lambda each: is_development(each.score)):
        score = measurement.score
        table = _table_of(measurement)
        protocol = {"metric": score.metric, **evaluation_protocol(score)}
        parts_of_row = parts.setdefault((*table, *_row_of(measurement)), [])
        # The latest part first, as successive scores of a run come from the same evaluation.
        for part in reversed(parts_of_row):
            if part.accepts(score.task, protocol):
                part.add(measurement, protocol)
                break
        else:
            part = ComparableScores(*table, metric, prompts=prompts)
            part.add(measurement, protocol)
            parts_of_row.append(part)
    return list(chain.from_iterable(parts.values()))


def _usual_first(parts: Sequence[ComparableScores]) -> list[ComparableScores]:
    """Return parts with the most frequent protocol of each of their tasks first, then the other parts.

    Otherwise, one row with another protocol of a task could displace this task of all other rows.
    """
    counts: dict[tuple[Any, ...], Counter[str]] = {}
    protocols_of_parts = []
    for part in parts:
        protocols = list(_protocols_of(part))
        protocols_of_parts.append(protocols)
        for task, protocol in protocols:
            counts.setdefault(task, Counter())[protocol] += 1
    most = {}
    for task, counts_of_task in counts.items():
        most[task] = max(counts_of_task.values())

    usual = []
    unusual = []
    for part, protocols in zip(parts, protocols_of_parts, strict=True):
        if all(counts[task][protocol] == most[task] for task, protocol in protocols):
            usual.append(part)
        else:
            unusual.append(part)
    return usual + unusual


def _protocols_of(part: ComparableScores) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield each task, with what identifies its table, and its protocol as text."""
    for task, protocol in part.protocols.items():
        key = (part.evaluator, part.protocol_id, part.is_development, task)
        yield key, repr(protocol)


def _add_part(part: ComparableScores, tables: list[ComparableScores]) -> None:
    """Add the scores of a row to the first tables that accept them; what is left becomes a new table."""
    for table in list(tables):
        # A table that has the row already has it from another evaluation of the same run.
        if table.rows.isdisjoint(part.rows):
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
    """Return the protocol entries in which a table differs from others, with the table's values."""
    differences: dict[str, dict[str, dict[str, None]]] = {}
    for other in others:
        for task, protocol in table.protocols.items():
            for name, values in unlike(protocol, other.protocols.get(task, protocol)):
                tasks = differences.setdefault(name, {})
                tasks.setdefault(task, {})[f"({values})"] = None
    entries = []
    for name, tasks in differences.items():
        entries.append(_entry(name, tasks, len(table.protocols)))
    return ", ".join(entries)


def _entry(name: str, tasks: dict[str, dict[str, None]], number_of_tasks: int) -> str:
    """Return an entry with its values, or the first task's if tasks differ; and its tasks, unless it is all."""
    values = list(dict.fromkeys(map(" ".join, tasks.values())))
    text = f"{name} {values[0]}"
    if len(values) > 1:
        text = f"{name} {values[0].removesuffix(')')}, …)"
    return text if len(tasks) == number_of_tasks else f"{text} of {', '.join(tasks)}"
