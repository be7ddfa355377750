"""Tables as papers print them: an encoder a row, a task a column, then the average."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import attrs
from sentbed.errors import RunError
from sentbed.helpers import score_digits
from sentbed.protocols import Direction, Score

from sentbed_report.comparability import evaluation_protocol, unlike

AVERAGE = "AVG"
"""The task under which an evaluator gives an average of its own."""


@attrs.frozen
class Column:
    """One task: its first metric under one protocol."""

    task: str
    metric: str
    values: tuple[float | None, ...]
    """One a row; None where the encoder was not scored."""
    direction: Direction = "higher"
    plotted: bool = False
    """Whether its scores are drawn in a plane: of a run's, none is marked as the best of its column."""

    def places(self, decimals: int) -> tuple[int | None, ...]:
        """Return whether each value is, as printed, the best (0), the second best (1) or neither (None)."""
        shown = [None if v is None or not math.isfinite(v) else round(v, decimals) for v in self.values]
        distinct = sorted({v for v in shown if v is not None}, reverse=self.direction == "higher")
        if len(distinct) < 2 or self.direction == "none":
            return (None,) * len(shown)
        ranks = {value: rank for rank, value in enumerate(distinct[:2])}
        return tuple(None if value is None else ranks.get(value) for value in shown)


@attrs.frozen
class PaperTable:
    """Scores of one evaluator that may be read side by side."""

    evaluator: str
    protocol: str
    """The id that all of them share; empty where there is none."""
    encoders: tuple[str, ...]
    columns: tuple[Column, ...]
    """In the order of the evaluation's scores; an average comes last."""
    protocols: tuple[str, ...]
    """Those of the columns, in a word or two each."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Of the tasks, each once."""
        return tuple(dict.fromkeys(column.metric for column in self.columns if column.task != AVERAGE))

    @property
    def headings(self) -> tuple[str, ...]:
        """Of the columns, with the metric where they do not share one."""
        mixed = len(self.metrics) > 1
        named = {c.task: f"{c.task} ({c.metric})" if mixed else c.task for c in self.columns}
        return tuple({**named, AVERAGE: "Avg"}[column.task] for column in self.columns)

    @property
    def note(self) -> str:
        """What the numbers are."""
        return "; ".join([self.evaluator, ", ".join(self.metrics), ", ".join(self.protocols)])

    @property
    def digits(self) -> int:
        """Decimals to print; see `ScoreTable.digits`."""
        return score_digits(v for column in self.columns for v in column.values if v is not None)


def paper_tables(scores: Iterable[tuple[str, Score]], strict: bool = True) -> tuple[PaperTable, ...]:
    """Make tables of scores, given with the name of their row: one an evaluator and protocol id.

    Where a score differs from its column in another entry of the protocol, it is refused, or, unless
    `strict`, stands in a further table.

    Raises:
        RunError: where one column would hold scores of unlike protocol; names the entries.
    """
    drafts: dict[tuple[str, str], list[_Draft]] = {}
    for row, score in scores:
        key = score.evaluator, score.protocol_id
        found = drafts.setdefault(key, [])
        # The latest first: what follows each other in a run was scored together.
        for draft in sorted(found, key=lambda draft: -draft.used):
            conflict = draft.take(row, score)
            if conflict is None:
                break
            if strict:
                raise RunError(conflict)
        else:
            draft = _Draft(*key)
            draft.take(row, score)
            found.append(draft)
        draft.used = 1 + max(other.used for other in found)
    return tuple(draft.table() for found in drafts.values() for draft in found)


class _Draft:
    """A table that is being filled."""

    def __init__(self, evaluator: str, protocol: str) -> None:
        self.evaluator, self.protocol = evaluator, protocol
        self.used = 0
        """When a score was last taken; counts up."""
        self.rows: dict[str, None] = {}
        self.protocols: dict[str, dict[str, Any]] = {}
        self.first: dict[tuple[str, str], Score] = {}

    def take(self, row: str, score: Score) -> str | None:
        """Add the score, unless it cannot stand in its column: then return why.

        Of the metrics and aggregations that an evaluation gives of a task only the first counts.
        """
        place = (row, score.task)
        protocol = {"metric": score.metric, **evaluation_protocol(score)}
        expected = self.protocols.setdefault(score.task, protocol)
        known = self.first.get(place)
        if known and (known.metric, known.protocol_name) != (score.metric, score.protocol_name):
            return None
        if expected != protocol:
            return (
                f"`{score.task}` of `{row}` is of another protocol than the column it would stand in: "
                f"{', '.join(unlike(expected, protocol))}; make a table of each"
            )
        self.first.setdefault(place, score)
        self.rows[row] = None
        return None

    def table(self) -> PaperTable:
        """Return the table."""
        columns = [self._column(task) for task in self.protocols if task != AVERAGE]
        if AVERAGE in self.protocols:
            columns.append(self._column(AVERAGE))
        elif len(columns) > 1:
            means = (_mean(row) for row in zip(*(column.values for column in columns), strict=True))
            metrics = {column.metric for column in columns}
            metric = metrics.pop() if len(metrics) == 1 else "mean"
            direction = _shared({column.direction for column in columns})
            plotted = all(column.plotted for column in columns)
            columns.append(Column(AVERAGE, metric, tuple(means), direction, plotted))
        names = dict.fromkeys(score.protocol_name for score in self.first.values())
        return PaperTable(self.evaluator, self.protocol, tuple(self.rows), tuple(columns), tuple(names))

    def _column(self, task: str) -> Column:
        found = [self.first.get((row, task)) for row in self.rows]
        values = tuple(None if score is None else score.value for score in found)
        direction = _shared({score.direction for score in found if score is not None})
        plotted = any(score is not None and score.axis != "" for score in found)
        return Column(task, str(self.protocols[task]["metric"]), values, direction, plotted)


def _shared(directions: Collection[Direction]) -> Direction:
    """Return which way is better where all agree."""
    return next(iter(directions)) if len(directions) == 1 else "none"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None
