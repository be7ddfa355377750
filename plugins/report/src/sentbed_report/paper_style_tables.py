"""Tables as in papers: one row per encoder, one column per task, then the average."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import attrs
from sentbed.errors import RunError
from sentbed.helpers import score_digits
from sentbed.protocols import Direction, Score

from sentbed_report.comparability import evaluation_protocol, unlike
from sentbed_report.data_splits import is_development
from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.format_independent_table import Place, PrintedCell, PrintedRow, PrintedTable
from sentbed_report.formatting import cost_digits, number

AVERAGE = "AVG"
"""Task name for an average given by the evaluator."""


@attrs.frozen
class Column:
    """Column of a task: its first metric under one protocol."""

    task: str
    metric: str
    values: tuple[float | None, ...]
    """One value per row; None if the encoder was not scored."""
    direction: Direction = "higher"
    plotted: bool = False
    """Whether its scores are plotted in a plane; the best one is then not marked in a run's tables."""
    degenerate: tuple[str, ...] = ()
    """Why a value says nothing about its encoder, one per row, empty if it does; or nothing at all."""
    part: str = ""
    """For an average over a part of the row: how many of its tasks, such as `5 of 7`; empty if over all."""
    cost: bool = False
    """Whether it says what encoders take: it is neither ranked nor in an average."""

    @property
    def average_name(self) -> str:
        """Heading of an average, which says so if it is over a part of the row."""
        return f"Avg ({self.part})" if self.part else "Avg"

    def places(self, decimals: int) -> tuple[Place | None, ...]:
        """Return for each printed value whether it is the best (0), second best (1) or neither (None).

        Degenerate values have no place.
        """
        said = self.degenerate or ("",) * len(self.values)
        shown = [
            None if value is None or why or not math.isfinite(value) else round(value, decimals)
            for value, why in zip(self.values, said, strict=True)
        ]
        distinct = sorted({v for v in shown if v is not None}, reverse=self.direction == "higher")
        if len(distinct) < 2 or self.direction == "none" or self.cost:
            return (None,) * len(shown)
        ranks: dict[float, Place] = {distinct[0]: 0, distinct[1]: 1}
        return tuple(None if value is None else ranks.get(value) for value in shown)


@attrs.frozen
class PaperTable:
    """Comparable scores of one evaluator."""

    evaluator: str
    protocol: str
    """Protocol id that all scores share; empty if there is none."""
    encoders: tuple[str, ...]
    columns: tuple[Column, ...]
    """Columns in the order of the evaluation's scores, with an average last."""
    protocols: tuple[str, ...]
    """Short names of the columns' protocols."""
    skipped: tuple[str, ...] = ()
    """Tasks that no row has, as they were left out for want of data."""
    development: bool = False
    """Whether its scores are on development data."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Distinct metrics of the tasks."""
        return tuple(dict.fromkeys(column.metric for column in self.columns if column.task != AVERAGE))

    @property
    def headings(self) -> tuple[str, ...]:
        """Headings of the columns, with the metric if they have different ones."""
        mixed = len(self.metrics) > 1
        return tuple(
            c.average_name if c.task == AVERAGE else f"{c.task} ({c.metric})" if mixed else c.task
            for c in self.columns
        )

    @property
    def note(self) -> str:
        """Note on the numbers: evaluator, metrics, protocols, and tasks without data."""
        without = [f"without {', '.join(self.skipped)}, whose data is missing"] if self.skipped else []
        data = ["development data"] if self.development else []
        return "; ".join(
            [self.evaluator, ", ".join(self.metrics), ", ".join(self.protocols), *data, *without]
        )

    @property
    def digits(self) -> int:
        """Decimals to print; see `ScoreTable.digits`."""
        return score_digits(v for column in self.columns for v in column.values if v is not None)

    @property
    def printed(self) -> PrintedTable:
        """Its printed form."""
        nowhere = (None,) * len(self.encoders)
        lines = []
        for column in self.columns:
            places = nowhere if column.plotted else column.places(self.digits)
            whys = column.degenerate or ("",) * len(self.encoders)
            found = zip(column.values, places, whys, strict=True)
            digits = self.digits
            if column.cost:
                digits = cost_digits(value for value in column.values if value is not None)
            lines.append(
                [PrintedCell(number(value, digits), place, degenerate=why) for value, place, why in found]
            )
        rows = zip(self.encoders, zip(*lines, strict=True), strict=True)
        return PrintedTable(
            "", "encoder", self.headings, tuple(PrintedRow(name, cells) for name, cells in rows), self.note
        )


def paper_tables(scores: Iterable[tuple[str, Score]], strict: bool = True) -> tuple[PaperTable, ...]:
    """Make one table per evaluator, protocol id and kind of data from scores, with the names of their rows.

    Scores on development data have a table of their own, so that an average is of one kind of data. An
    average of unlike metrics, such as GLUE's, is printed, and neither ranked nor tested.

    Where a score differs from its column in another entry of the protocol, it is refused, or, unless
    `strict`, stands in a further table.

    Raises:
        RunError: if a column would have scores of different protocols; names the entries.
    """
    drafts: dict[tuple[str, str, bool], list[_Draft]] = {}
    for row, score in scores:
        key = score.evaluator, score.protocol_id, is_development(score)
        found = drafts.setdefault(key, [])
        # Latest first: consecutive scores of a run belong together.
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
    """Table under construction."""

    def __init__(self, evaluator: str, protocol: str, development: bool) -> None:
        self.evaluator, self.protocol, self.development = evaluator, protocol, development
        self.used = 0
        """Counter value when a score was last added."""
        self.rows: dict[str, None] = {}
        self.protocols: dict[str, dict[str, Any]] = {}
        self.first: dict[tuple[str, str], Score] = {}
        self.skipped: dict[str, None] = {}

    def take(self, row: str, score: Score) -> str | None:
        """Add the score, or return the reason if it does not fit its column.

        Only the first metric and aggregation of each task in an evaluation is used.
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
        self.skipped |= dict.fromkeys(score.skipped)
        return None

    def table(self) -> PaperTable:
        """Return the table."""
        columns = [self._column(task) for task in self.protocols if task != AVERAGE]
        # A task that another row has leaves this one without an average.
        skipped = tuple(task for task in self.skipped if task not in self.protocols)
        part = f"{len(columns)} of {len(columns) + len(skipped)}" if skipped else ""
        if AVERAGE in self.protocols:
            columns.append(self._column(AVERAGE))
        elif len(columns) > 1 and not any(column.cost for column in columns):
            columns.append(self._mean(columns, part))
        names = dict.fromkeys(score.protocol_name for score in self.first.values())
        return PaperTable(
            self.evaluator,
            self.protocol,
            tuple(self.rows),
            tuple(columns),
            tuple(names),
            skipped,
            self.development,
        )

    def _mean(self, columns: Sequence[Column], part: str) -> Column:
        """Return the average of tasks, in which no row is the best if their metrics are unlike."""
        values = tuple(_mean(row) for row in zip(*(column.values for column in columns), strict=True))
        metrics = {column.metric for column in columns}
        metric = columns[0].metric if len(metrics) == 1 else "mean"
        direction = _shared({column.direction for column in columns}) if len(metrics) == 1 else "none"
        plotted = all(column.plotted for column in columns)
        whys = tuple(_includes(columns, row) for row in range(len(self.rows)))
        return Column(AVERAGE, metric, values, direction, plotted, whys, part)

    def _column(self, task: str) -> Column:
        found = [self.first.get((row, task)) for row in self.rows]
        values = tuple(None if score is None else score.value for score in found)
        direction = _shared({score.direction for score in found if score is not None})
        axes = {score.axis for score in found if score is not None}
        whys = tuple("" if score is None else degenerate_of(score) for score in found)
        metric, plotted = str(self.protocols[task]["metric"]), not axes.isdisjoint("xy")
        return Column(task, metric, values, direction, plotted, whys, cost="cost" in axes)


def _includes(columns: Sequence[Column], row: int) -> str:
    """Return why the average of a row is degenerate; empty if no column is."""
    tasks = ", ".join(column.task for column in columns if column.degenerate[row])
    return f"it includes {tasks}, where the score is degenerate" if tasks else ""


def _shared(directions: Collection[Direction]) -> Direction:
    """Return the common direction, or `none` if they differ."""
    return next(iter(directions)) if len(directions) == 1 else "none"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None
