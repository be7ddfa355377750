"""Grouping of a study's comparable scores into tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs
from sentbed.protocols import Score

from sentbed_report.comparability import evaluation_protocol, unlike
from sentbed_report.data_splits import is_development

Rows: TypeAlias = Sequence[tuple[str, Score]]
"""Scores, with the names of their rows."""


def alike(rows: Rows) -> Iterator[tuple[Rows, str]]:
    """Yield the scores of each table and how it differs from its siblings, empty if it has none.

    A table holds one evaluator and protocol id, either on development data or on others, each of its columns
    one metric under one protocol. What a row has of an evaluator stays together, unless it has one task under
    two protocols. Tables on development data come last.
    """
    evaluations: dict[tuple[str, str, bool, str], list[_Part]] = {}
    for row, score in sorted(rows, key=lambda pair: is_development(pair[1])):
        found = evaluations.setdefault((score.evaluator, score.protocol_id, is_development(score), row), [])
        # The latest first: what follows each other in a run was scored together.
        part = next((part for part in reversed(found) if part.takes(score)), None)
        if part is None:
            part = _Part()
            found.append(part)
        part.add(row, score)
    tables: dict[tuple[str, str, bool], list[_Part]] = {}
    for (evaluator, protocol, development, _), parts in evaluations.items():
        siblings = tables.setdefault((evaluator, protocol, development), [])
        for part in parts:
            table = next((table for table in siblings if table.fits(part)), None)
            if table is None:
                siblings.append(part)
            else:
                table.join(part)
    for siblings in tables.values():
        for table in siblings:
            yield table.scores, _apart(table, [other for other in siblings if other is not table])


@attrs.define
class _Part:
    """Scores that can share a table."""

    scores: list[tuple[str, Score]] = attrs.field(factory=list)
    protocols: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    """Task -> metric and protocol of its first score, which tables print."""
    names: dict[str, tuple[str, str]] = attrs.field(factory=dict)
    """Task -> metric and name of the protocol of its first score; another one is a further metric."""

    def takes(self, score: Score) -> bool:
        """Whether a score of the same row may be added."""
        return self.names.get(score.task) != _name(score) or self.protocols[score.task] == _protocol(score)

    def add(self, row: str, score: Score) -> None:
        """Add a score."""
        self.scores.append((row, score))
        if score.task not in self.names:
            self.names[score.task], self.protocols[score.task] = _name(score), _protocol(score)

    def fits(self, other: _Part) -> bool:
        """Whether all shared tasks have the same metric and protocol."""
        shared = self.protocols.keys() & other.protocols.keys()
        return all(self.protocols[task] == other.protocols[task] for task in shared)

    def join(self, other: _Part) -> None:
        """Add the compatible scores of another row."""
        self.scores += other.scores
        self.protocols |= other.protocols


def _name(score: Score) -> tuple[str, str]:
    return score.metric, score.protocol_name


def _protocol(score: Score) -> dict[str, Any]:
    return {"metric": score.metric, **evaluation_protocol(score)}


def _apart(table: _Part, others: Iterable[_Part]) -> str:
    """Return the protocol entries in which a table differs from others, with its own values."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    shared: dict[str, None] = {}
    for other in others:
        for task in (task for task in table.protocols if task in other.protocols):
            shared[task] = None
            for entry in unlike(table.protocols[task], other.protocols[task]):
                name, _, values = entry.replace("`", "").partition(" (")
                found.setdefault(name, {}).setdefault(task, {})[f"({values}"] = None
    return ", ".join(_entry(name, tasks, len(shared)) for name, tasks in found.items())


def _entry(name: str, tasks: dict[str, dict[str, None]], shared: int) -> str:
    """Return an entry with its values, of the first task where they differ, and its tasks, if not all."""
    values = list(dict.fromkeys(" ".join(one) for one in tasks.values()))
    said = f"{name} {values[0]}" if len(values) == 1 else f"{name} {values[0].removesuffix(')')}, …)"
    return said if len(tasks) == shared else f"{said} of {', '.join(tasks)}"
