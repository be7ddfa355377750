"""Tables of a study: one row per cell, one column per task, mean and spread over seeds, significance.

`summarise` (in `build_summary_tables.py`) makes them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import Direction, ExpectedRow

from sentbed_report.format_independent_table import Place, PrintedCell, PrintedRow, PrintedTable, sign_of
from sentbed_report.formatting import cost_digits, count, expected_digits, number
from sentbed_report.paper_style_tables import AVERAGE, Column
from sentbed_report.statistics.resampling import SIGNIFICANT
from sentbed_report.statistics.significance import Judged, TableScores
from sentbed_report.study.rank_groups import RankGroups, rank_groups
from sentbed_report.study.study_data import CellStatus, Family


@attrs.frozen
class Measured:
    """One cell's score in one column."""

    values: Mapping[int, float] = attrs.field(factory=dict)
    """Seed -> score; empty where nothing was measured."""
    place: Place | None = None
    judged: Judged | None = None
    """Comparison with the baseline; None for the baseline itself, or without one."""
    published: tuple[ExpectedRow, ...] = ()
    """Published numbers for this value."""
    degenerate: str = ""
    """Why it says nothing about the encoder; empty if it does."""
    rank: int | None = None
    """Rank in its column, from 1, where the study asks for ranks."""

    @property
    def mean(self) -> float | None:
        """Over the seeds."""
        return sum(self.values.values()) / len(self.values) if self.values else None

    def printed(self, digits: int) -> PrintedCell:
        """Return its printed form."""
        spread = "" if self.std is None or not math.isfinite(self.std) else number(self.std, digits)
        sign = sign_of(self.judged.corrected) if self.judged is not None else ""
        return PrintedCell(number(self.mean, digits), self.place, spread, sign, self.degenerate, self.rank)

    @property
    def std(self) -> float | None:
        """The sample standard deviation over the seeds; None for fewer than two."""
        if self.mean is None or len(self.values) < 2:
            return None
        spread = math.fsum((value - self.mean) ** 2 for value in self.values.values())
        return math.sqrt(spread / (len(self.values) - 1))


@attrs.frozen
class SummaryColumn:
    """One task under one protocol, or the average of all."""

    task: str
    metric: str
    protocol: Mapping[str, Any]
    """Protocol shared by all scores of the column; empty for an average computed here."""
    direction: Direction = "higher"
    part: str = ""
    """For an average over a part of the row: how many of its tasks, such as `5 of 7`; empty if over all."""
    cost: bool = False
    """Whether it says what cells take: it is neither ranked nor tested."""

    @property
    def average(self) -> bool:
        """Whether it is the average."""
        return self.task == AVERAGE

    @property
    def lower(self) -> bool:
        """Whether lower is better."""
        return self.direction == "lower"

    @property
    def ranked(self) -> bool:
        """Whether cells are ranked by it: higher or lower is better, and it is no cost."""
        return self.direction != "none" and not self.cost

    def places(self, means: Sequence[float | None], decimals: int) -> tuple[Place | None, ...]:
        """Return the place of each mean, as printed with `decimals` decimals."""
        return Column(self.task, self.metric, tuple(means), self.direction, cost=self.cost).places(decimals)

    def ranks(self, means: Sequence[float | None]) -> tuple[int | None, ...]:
        """Return the rank of each mean, from 1, before rounding; equal means have the same, the least.

        Means are compared to nine decimals, since a mean over seeds has rounding errors.
        """
        sign = -1 if self.direction == "higher" else 1
        found = [None if mean is None or not math.isfinite(mean) else sign * round(mean, 9) for mean in means]
        ordered = sorted(value for value in found if value is not None)
        if not self.ranked or not ordered:
            return (None,) * len(found)
        return tuple(None if value is None else 1 + bisect_left(ordered, value) for value in found)


@attrs.frozen
class SummaryRow:
    """Row of a cell, or of one of its encoders if there are several."""

    cell: str
    encoder: str
    """Name of the encoder; empty if the cell has no scores."""
    name: str
    """Name in tables."""
    labels: Mapping[str, str]
    """Axis -> label."""
    status: CellStatus
    """Status; `finished` if the runs of all seeds are."""
    seeds: tuple[int, ...]
    """Seeds whose run has finished."""
    total: int
    """Planned number of seeds."""
    error: str
    """Error of the first run that failed."""
    cells: tuple[Measured, ...]
    """Values, one per column."""
    counted: bool = False
    """Whether to say how many seeds it has although it has finished: other rows have more, or fewer."""
    stopped: bool = False
    """Whether its cell was stopped, so that its mean is over other seeds; see `StudyData.stopped`."""

    @property
    def scored(self) -> tuple[int, ...]:
        """Seeds with a score in this table."""
        return tuple(dict.fromkeys(seed for cell in self.cells for seed in cell.values))

    @property
    def remark(self) -> str:
        """Status of an unfinished row; for a finished one, its seed count if rows differ in it."""
        if self.status == "finished":
            seeds = count(len(self.scored), "seed")
            return f"stopped, {seeds}" if self.stopped else seeds if self.counted else ""
        return f"{self.status}, {len(self.seeds)} of {self.total}" if self.seeds else self.status


@attrs.frozen
class ReferenceRow:
    """Numbers of a system that cells are compared with; see `Reference`."""

    name: str
    source: str
    """Where they are published; empty for those of a cell."""
    cell: str
    """Cell whose numbers they are; empty for published ones."""
    values: tuple[float | None, ...]
    """One number per column; None where there is none that can be compared."""


@attrs.frozen(repr=False)
class Summary:
    """Table of comparable scores of one evaluator and protocol."""

    study: str
    evaluator: str
    protocol: str
    """Protocol id that all scores share; empty if there is none."""
    metric: str
    """Where it is a further metric of tasks that stand in an earlier table; else empty."""
    note: str
    """Evaluator, metrics and protocols, in a few words; then `apart`."""
    apart: str
    """Differences from other tables of the same evaluator and protocol id; empty if there are none."""
    columns: tuple[SummaryColumn, ...]
    """Tasks in the papers' order, or the study's; the average, where there is one, comes last."""
    rows: tuple[SummaryRow, ...]
    baseline: str | None
    """The name of the cell that others are compared with."""
    resamples: int
    """Number of resamples of the items."""
    seeds: tuple[int, ...]
    """Every seed that has a score here, in the study's order."""
    references: tuple[ReferenceRow, ...] = ()
    """Systems with a number in a column, in the recipe's order."""
    ranks: tuple[str, ...] | None = None
    """Axes within whose labels numbers are ranked; see `StudyData.ranks`."""
    looks: int = 1
    """Number of looks for which p-values are corrected; see `StudyData.looks`."""
    equivalence: float | None = None
    """Margin of the last column's tests of equivalence; see `StudyData.equivalence`."""
    family: Family = "column"
    """What p-values are corrected over; see `StudyData.family`."""
    development: bool = False
    """Whether its scores are on development data, from which nothing follows for test data."""
    scores: TableScores[tuple[str, str]] | None = attrs.field(default=None, eq=False)
    """Scores by cell and encoder, for `groups`; None where the study asks for none."""

    @cached_property
    def groups(self) -> RankGroups | None:
        """Which rows cannot be told apart in the last column.

        None where the study does not ask for it, the column has no better and worse, fewer than two rows have
        finished, or the table is one of further metrics.
        """
        if self.scores is None or self.metric or not self.columns[-1].ranked:
            return None
        return rank_groups(self, self.scores)

    @property
    def ranked_by(self) -> dict[str, str]:
        """What the last column is of: evaluator, protocol, task and metric."""
        last = self.columns[-1]
        return {
            "evaluator": self.evaluator,
            "protocol": self.protocol,
            "task": last.task,
            "metric": last.metric,
        }

    @property
    def headings(self) -> tuple[str, ...]:
        """Headings of the columns, with the metric if they have different ones."""
        mixed = len({column.metric for column in self.columns if not column.average}) > 1
        return tuple(
            (f"Avg ({c.part})" if c.part else "Avg")
            if c.average
            else f"{c.task} ({c.metric})"
            if mixed
            else c.task
            for c in self.columns
        )

    @property
    def digits(self) -> int:
        """Decimals to print; see `ScoreTable.digits`."""
        return score_digits(c.mean for row in self.rows for c in row.cells if c.mean is not None)

    @property
    def decimals(self) -> tuple[int, ...]:
        """Decimals to print in each column: `digits`, but for costs, each of which has its own unit."""
        return tuple(
            cost_digits(mean for row in self.rows if (mean := row.cells[index].mean) is not None)
            if column.cost
            else self.digits
            for index, column in enumerate(self.columns)
        )

    @property
    def over(self) -> str:
        """Sentence on what the numbers are."""
        counts = {len(row.scored) for row in self.rows if row.scored}
        most, listed = max(counts, default=0), ", ".join(map(str, self.seeds))
        if most < 2:
            if len(self.seeds) > 1:
                return f"One run a row, under the seeds {listed}."
            return "One run a row." if most else "Nothing has finished."
        if most == len(self.seeds) and counts == {most}:
            return f"Mean and standard deviation over {most} seeds ({listed})."
        if counts == {most}:
            return f"Mean and standard deviation over {most} seeds a row, of {listed}."
        return (
            f"Mean and standard deviation over the seeds that have finished, up to {most}; rows say how many."
        )

    @property
    def test(self) -> str:
        """Sentence on the significance test; empty without comparisons."""
        judged = [c.judged for row in self.rows for c in row.cells if c.judged and c.judged.basis]
        if self.baseline is None or not judged:
            return ""
        basis = {one.basis for one in judged}
        what = "items and seeds" if "items and seeds" in basis or len(basis) > 1 else next(iter(basis))
        looks = "" if self.looks == 1 else f", times the {self.looks} looks at which cells may be stopped"
        family = "in each column" if self.family == "column" else "and all columns of the study together"
        return (
            f"Tests against {self.baseline}, each seed against the same seed: two-sided, Student's t over "
            f"{what}, with Holm's correction over the cells {family}{looks}."
        )

    @property
    def covered(self) -> str:
        """Sentence on what the correction does not cover; empty where it covers all columns."""
        tested = {place for row in self.rows for place, cell in enumerate(row.cells) if _is_tested(cell)}
        if self.family != "column" or len(tested) < 2:
            return ""
        share = 1 - (1 - SIGNIFICANT) ** len(tested)
        return (
            "The correction is for one column at a time: where no cell differs in any of "
            f"{len(tested)} columns, a mark stands somewhere in up to {share:.0%} of studies, if the columns "
            'are independent. `[study] family = "study"` corrects over all.'
        )

    @property
    def said(self) -> tuple[str, ...]:
        """Sentences on the numbers: what they are over, the test, and what was not tested."""
        return tuple(self._said())

    @property
    def printed(self) -> PrintedTable:
        """Its printed form."""
        return PrintedTable(
            self.study,
            "cell",
            self.headings,
            tuple(self._row(row) for row in self.rows),
            self.note,
            self.said,
            self.baseline or "",
            all(row.status == "finished" for row in self.rows),
            self.ranks,
        )

    def __repr__(self) -> str:
        sizes = f"{count(len(self.rows), 'row')}, {count(len(self.columns), 'column')}"
        return f"<table {self.note}: {sizes}>"

    def __str__(self) -> str:
        from sentbed_report.table_formats import to_text

        return to_text(self)

    def _repr_html_(self) -> str:
        from sentbed_report.table_formats import to_html

        return to_html(self)

    def _row(self, row: SummaryRow) -> PrintedRow:
        remarks = ("baseline" if row.cell == self.baseline else "", row.remark)
        below = tuple(
            number(cell.published[0].value, expected_digits(cell.published[0])) if cell.published else ""
            for cell in row.cells
        )
        cells = tuple(map(Measured.printed, row.cells, self.decimals))
        return PrintedRow(row.name, cells, tuple(filter(None, remarks)), below)

    def _said(self) -> Iterator[str]:
        yield self.over
        if self.test:
            yield self.test
        if self.covered:
            yield self.covered
        metrics = dict.fromkeys(column.metric for column in self.columns if not column.cost)
        if len(metrics) > 1 and not self.columns[-1].average:
            yield f"No average, as the columns are of several metrics: {', '.join(metrics)}."
        if stopped := [row.name for row in self.rows if row.stopped]:
            rank = "" if self.ranks is None else " and have no rank"
            yield (
                f"Stopped cells are not marked as best{rank}, since their means are over other seeds "
                f"than those of cells that went on: {'; '.join(stopped)}."
            )
        reasons: dict[str, dict[str, None]] = {}
        unpaired: dict[tuple[int, ...], dict[str, None]] = {}
        for row in self.rows:
            for cell in row.cells:
                if cell.judged is None or not cell.values:
                    continue
                if cell.judged.reason:
                    reasons.setdefault(cell.judged.reason, {})[row.name] = None
                if cell.judged.unpaired and cell.judged.basis:
                    unpaired.setdefault(cell.judged.unpaired, {})[row.name] = None
        for seeds, names in unpaired.items():
            yield (
                f"Tested only over the seeds that both have, not {', '.join(map(str, seeds))}: "
                f"{'; '.join(names)} against {self.baseline}."
            )
        for reason, names in reasons.items():
            yield f"Not judged everywhere ({'; '.join(names)}): {reason}."


def _is_tested(cell: Measured) -> bool:
    return cell.judged is not None and cell.judged.p_value is not None


def title_of(summary: Summary) -> str:
    """Return a title for the last column of a table, which is the average if there is one."""
    parts = [summary.evaluator]
    if summary.protocol not in ("", summary.evaluator):
        parts.append(summary.protocol)
    if summary.apart:
        parts.append(summary.apart)
    metric = summary.columns[-1].metric
    return f"{', '.join(parts)}: {summary.headings[-1]}" + (f" ({metric})" if metric != "mean" else "")
