"""Group comparable scores into tables of encoders by tasks.

A table holds one evaluator, metric, protocol id and aggregation; a column holds one task under one complete
protocol. So a change from `NAME@start` to `NAME` always compares like with like, and two scores that differ
in anything stand in two tables. What differs between the tasks of one table (the data, mostly) is named.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import START, Direction, Score
from sentbed.tools import plain

from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.format_independent_table import degenerate_legend

_HEADING = ("id", "aggregation")
"""Protocol entries shared by all scores of a table."""


@attrs.frozen
class Cell:
    """Score; `change` is the difference to before training, or None if that was not measured."""

    value: float
    change: float | None = None
    interval: tuple[float, float] | None = None
    """Confidence interval, if available."""
    degenerate: str = ""
    """Why it says nothing about the encoder; empty if it does."""


@attrs.frozen
class Row:
    """Scores of an encoder, one per task; None if it was not scored."""

    encoder: str
    cells: tuple[Cell | None, ...]


@attrs.frozen
class ScoreTable:
    """Table of comparable scores."""

    evaluator: str
    metric: str
    protocol: str
    """Id, aggregation, and differences from sibling tables."""
    tasks: tuple[str, ...]
    rows: tuple[Row, ...]
    common: tuple[tuple[str, str], ...]
    """Protocol entries equal for all tasks."""
    varying: tuple[str, ...]
    """Names of the entries that differ between tasks."""
    by_task: tuple[tuple[str, ...], ...]
    """Values of `varying`, one row per task."""
    skipped: tuple[str, ...] = ()
    """Tasks that were left out for want of data."""

    @property
    def digits(self) -> int:
        """Decimals to print: two on the papers' scale of 100, three for small numbers such as alignment."""
        return score_digits(cell.value for row in self.rows for cell in row.cells if cell is not None)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on tasks without data, and on the numbers that say nothing about their encoder."""
        skipped = f"Left out, as their data is missing: {', '.join(self.skipped)}; the row is not complete."
        return (*((skipped,) if self.skipped else ()), *self._degenerate())

    def _degenerate(self) -> tuple[str, ...]:
        return tuple(
            degenerate_legend(
                (row.encoder, task, cell.degenerate)
                for row in self.rows
                for task, cell in zip(self.tasks, row.cells, strict=True)
                if cell is not None
            )
        )


@attrs.frozen
class Plane:
    """Two metrics that an evaluator has drawn against each other, as Wang & Isola (2020) alignment over
    uniformity."""

    x: str
    y: str
    directions: tuple[Direction, Direction]

    @classmethod
    def of(cls, x: Score, y: Score) -> Plane:
        """Return the plane of two scores."""
        return cls(x.metric, y.metric, (x.direction, y.direction))

    @property
    def title(self) -> str:
        """Heading that names both metrics."""
        return f"{self.y[:1].upper()}{self.y[1:]} and {self.x}"

    @property
    def over(self) -> str:
        """Heading for one metric over the other."""
        return f"{self.y[:1].upper()}{self.y[1:]} over {self.x}"

    @property
    def better(self) -> str:
        """Sentence on which direction is better; empty if neither is."""
        if len(set(self.directions)) == 1 and "none" not in self.directions:
            return f"{self.directions[0].capitalize()} is better on both axes."
        told = zip((self.x, self.y), self.directions, strict=True)
        return " ".join(f"{way.capitalize()} is better of {metric}." for metric, way in told if way != "none")


@attrs.frozen
class GeometryPoint:
    """Position of an encoder in a plane."""

    encoder: str
    x: float
    y: float


@attrs.frozen
class GeometryPanel:
    """Positions of encoders in a plane under one protocol, so that they can share axes."""

    plane: Plane
    evaluator: str
    protocol: str
    task: str
    points: tuple[GeometryPoint, ...]


def base_name(encoder: str) -> str:
    """Return the encoder's name without the suffix for before training."""
    return encoder.removesuffix(START)


def encoder_order(encoders: Iterable[str]) -> tuple[str, ...]:
    """Return each encoder once, in order of appearance, with `NAME@start` right before `NAME`."""
    found = tuple(dict.fromkeys(encoders))
    bases = tuple(dict.fromkeys(base_name(encoder) for encoder in found))
    return tuple(name for base in bases for name in (base + START, base) if name in found)


def score_tables(
    scores: Sequence[Score], intervals: Sequence[tuple[float, float] | None] = ()
) -> tuple[ScoreTable, ...]:
    """Group scores into tables, in order of appearance; `intervals` is empty or has one per score."""
    families: dict[tuple[str, ...], list[_Draft]] = {}
    for score, interval in zip_longest(scores, intervals):
        heading = tuple(_entry(score, name) for name in _HEADING)
        drafts = families.setdefault((score.evaluator, score.metric, *heading), [])
        if not any(draft.take(score, interval) for draft in drafts):
            drafts.append(_Draft())
            drafts[-1].take(score, interval)
    return tuple(
        _finish(draft, evaluator, metric, _label(heading, draft, drafts))
        for (evaluator, metric, *heading), drafts in families.items()
        for draft in drafts
    )


def geometry_panels(scores: Sequence[Score]) -> tuple[GeometryPanel, ...]:
    """Pair each encoder's scores on two axes, of the same evaluator, protocol id and task."""
    measured: dict[tuple[str, str, str], dict[str, dict[str, list[Score]]]] = {}
    for score in scores:
        if score.axis in ("x", "y") and math.isfinite(score.value):
            key = (score.evaluator, _entry(score, "id"), score.task)
            by_axis = measured.setdefault(key, {}).setdefault(score.encoder, {"x": [], "y": []})
            by_axis[score.axis].append(score)
    panels = []
    for (evaluator, protocol, task), encoders in measured.items():
        pairs = {name: tuple(zip(found["x"], found["y"], strict=False)) for name, found in encoders.items()}
        # Scored twice under one id with different settings: separate axes.
        for nth in range(max(map(len, pairs.values()))):
            placed = {name: pairs[name][nth] for name in encoder_order(pairs) if nth < len(pairs[name])}
            points = tuple(GeometryPoint(name, x.value, y.value) for name, (x, y) in placed.items())
            plane = Plane.of(*next(iter(placed.values())))
            panels.append(GeometryPanel(plane, evaluator, protocol, task, points))
    return tuple(panels)


def _entry(score: Score, name: str) -> str:
    found = score.evaluator_protocol
    return shown(plain(found[name])) if name in found else ""


def protocol_entries(score: Score) -> dict[str, str]:
    """Return a protocol for reports: the evaluator's part, the note, the encoder's part.

    If both parts have a name, the encoder's entry is `encoder.NAME`.
    """
    own: dict[str, Any] = {**score.evaluator_protocol, **({"note": score.note} if score.note else {})}
    of_encoder = {f"encoder.{k}" if k in own else k: v for k, v in score.protocol["encoder"].items()}
    return {str(name): shown(plain(value)) for name, value in {**own, **of_encoder}.items()}


def shown(value: Any) -> str:
    """Return a protocol's value as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class _Draft:
    """Table under construction."""

    def __init__(self) -> None:
        self.protocols: dict[str, dict[str, str]] = {}
        self.cells: dict[tuple[str, str], Cell] = {}
        self.skipped: dict[str, None] = {}

    def take(self, score: Score, interval: tuple[float, float] | None) -> bool:
        """Add the score unless its cell is taken or its column has another protocol; return whether added."""
        protocol = protocol_entries(score)
        place = (score.encoder, score.task)
        if place in self.cells or self.protocols.setdefault(score.task, protocol) != protocol:
            return False
        self.skipped |= dict.fromkeys(score.skipped)
        self.cells[place] = Cell(score.value, interval=interval, degenerate=degenerate_of(score))
        return True

    @property
    def common(self) -> dict[str, str]:
        first, *others = self.protocols.values()
        return {name: value for name, value in first.items() if all(p.get(name) == value for p in others)}


def _label(heading: Sequence[str], draft: _Draft, siblings: Sequence[_Draft]) -> str:
    parts = [part for part in heading if part]
    if len(siblings) > 1:
        others = [sibling.common for sibling in siblings if sibling is not draft]
        apart = [
            f"{name} {value}"
            for name, value in draft.common.items()
            if any(o.get(name) != value for o in others)
        ]
        parts += apart or [f"variant {siblings.index(draft) + 1}"]
    return " · ".join(parts)


def _finish(draft: _Draft, evaluator: str, metric: str, protocol: str) -> ScoreTable:
    tasks = tuple(draft.protocols)
    common = draft.common
    names = dict.fromkeys(name for entries in draft.protocols.values() for name in entries)
    varying = tuple(name for name in names if name not in common)

    def cell(encoder: str, task: str) -> Cell | None:
        found = draft.cells.get((encoder, task))
        before = None if encoder.endswith(START) else draft.cells.get((encoder + START, task))
        if found is None or before is None:
            return found
        return attrs.evolve(found, change=found.value - before.value)

    return ScoreTable(
        evaluator=evaluator,
        metric=metric,
        protocol=protocol,
        tasks=tasks,
        rows=tuple(
            Row(encoder, tuple(cell(encoder, task) for task in tasks))
            for encoder in encoder_order(encoder for encoder, _ in draft.cells)
        ),
        common=tuple(common.items()),
        varying=varying,
        by_task=tuple(tuple(draft.protocols[task].get(name, "–") for name in varying) for task in tasks),
        skipped=tuple(draft.skipped),
    )
