"""Rows that are not significantly worse than the best one, and intervals of ranks.

All pairs of rows are compared in the last column (`TableScores.pairs`), over seeds and items, with Holm's
correction over all pairs. The pairs that differ significantly determine which rows the best one does not beat,
and each row's rank interval (`sentbed_report.statistics.rank_intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import attrs

from sentbed_report.formatting import range_text
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.statistics.rank_intervals import (
    Pairs,
    not_comparable,
    rank_intervals,
    significantly_better,
)
from sentbed_report.statistics.significance import (
    Basis,
    Judged,
    TableScores,
    common_basis,
    corrected,
    with_test,
)
from sentbed_report.study.summary_row import RowKey, SummaryRow
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import MEAN_DECIMALS

if TYPE_CHECKING:
    from sentbed_report.statistics.rank_intervals import Matrix

MOST_ROWS = 200
"""Maximum number of rows for which groups are computed; a table with more rows has too many pairs of rows."""


@attrs.frozen
class GroupedRow:
    """A row of a table that was compared with all others."""

    cell: str
    encoder: str
    name: str
    """Name of the row in tables."""
    mean: float
    """Mean over the row's seeds in the last column."""
    beaten: bool
    """Whether the best row is significantly better."""
    alike: tuple[str, ...]
    """Names of the other rows from which the row does not differ significantly."""
    lowest_rank: int
    """Best rank that the tests leave possible, from 1."""
    highest_rank: int
    """Worst rank that the tests leave possible."""
    from_best: float
    """Difference from the best row over the seeds that both have, in the unit of the score; 0 for the best
    row."""
    low: float
    """Lower bound of `from_best`, valid for all pairs together (Bonferroni); 0 for the best row."""
    high: float
    """Upper bound of `from_best`, valid for all pairs together; 0 for the best row."""

    def is_like(self, other: GroupedRow) -> bool:
        """Whether this row and another cannot be told apart."""
        return other.name in self.alike

    @property
    def ranks(self) -> str:
        """Interval of the row's rank, such as `2 to 4`."""
        return range_text(self.lowest_rank, self.highest_rank)


@attrs.frozen
class RankGroups:
    """Comparison of all rows of a table in the last column."""

    rows: tuple[GroupedRow, ...]
    """Compared rows, the best first; empty if fewer than two rows can be compared."""
    left: tuple[tuple[str, str], ...] = ()
    """Rows that are left out: name and reason."""
    reason: str = ""
    """Why there are no rows; empty if there are rows."""
    basis: Basis | Literal[""] = ""
    """Sources of variance that the tests consider; empty without tests."""

    @property
    def names_left(self) -> list[str]:
        """Names of the rows that are left out."""
        return [name for name, _ in self.left]

    @property
    def pairs(self) -> int:
        """Number of pairs of rows that were compared."""
        return math.comb(len(self.rows), 2)


def rank_groups(
    rows_of_table: Sequence[SummaryRow],
    column: Column,
    scores: TableScores[RowKey],
) -> RankGroups | None:
    """Compare a table's rows in its last column, `column`; None if fewer than two rows have finished.

    Rows that have not finished, have no finite score, or cannot be compared with the others are left out.
    """
    left: list[tuple[str, str]] = []
    number_finished = 0
    rows = []
    for row in rows_of_table:
        if row.cells[-1].value is None:
            continue
        if row.status == "finished":
            number_finished += 1
        reason = _why_left_out(row)
        if reason:
            left.append((row.name, reason))
        else:
            rows.append(row)
    if number_finished < 2:
        return None

    if len(rows) > MOST_ROWS:
        pairs_of_rows = f"{len(rows):,} rows have {math.comb(len(rows), 2):,} pairs"
        reason = f"{pairs_of_rows}; up to {MOST_ROWS} rows are compared with each other"
        return RankGroups((), tuple(left), reason)

    rows.sort(key=lambda row: _worth(row, column), reverse=True)
    judged = scores.pairs([row.key for row in rows])
    reasons = not_comparable(_pairs_by_number(rows, judged))
    kept = []
    for number, row in enumerate(rows):
        if number not in reasons:
            kept.append(row)
    if len(kept) < 2:
        reason = "fewer than two rows can be compared"
        if reasons:
            reason = "; ".join(dict.fromkeys(reasons.values()))
        return RankGroups((), tuple(left), reason)

    for number, reason in reasons.items():
        left.append((rows[number].name, reason))
    pairs = corrected(_pairs_by_number(kept, judged))
    grouped = _compared_rows(kept, pairs, column)
    # Each pair has a p-value, and so a basis.
    basis = common_basis({judged.basis for judged in pairs.values() if judged.basis})
    return RankGroups(grouped, tuple(left), basis=basis)


def _pairs_by_number(
    rows: Sequence[SummaryRow], judged: Mapping[tuple[RowKey, RowKey], Judged]
) -> Pairs:
    """Return the comparison of every two rows: (number, number) in `rows` -> comparison."""
    pairs = {}
    for first, second in combinations(range(len(rows)), 2):
        pairs[first, second] = judged[rows[first].key, rows[second].key]
    return pairs


def _why_left_out(row: SummaryRow) -> str:
    """Return why a row with a mean in the last column is not compared; empty if it is compared."""
    cell = row.cells[-1]
    if row.status != "finished":
        return "it has not finished"
    if not cell.is_finite:
        return cell.degenerate or "its score is not finite"
    return ""


def _compared_rows(
    rows: Sequence[SummaryRow],
    pairs: Pairs,
    column: Column,
) -> tuple[GroupedRow, ...]:
    """Return the rows, which can all be compared with each other, with the results of the comparisons.

    The rows are sorted, the best first. `pairs` has the comparison of every two rows.
    """
    better = significantly_better(pairs, len(rows), column.lower)
    intervals = rank_intervals(better)
    different = better | better.T
    # The interval of the difference from the best row holds for all pairs at once.
    confidence = 1 - SIGNIFICANT / len(pairs)

    grouped = []
    for number, row in enumerate(rows):
        from_best = low = high = 0.0
        if number > 0:
            judged = with_test(pairs[0, number], confidence)
            from_best = judged.difference or 0.0
            low, high = judged.interval or (0.0, 0.0)
        lowest_rank, highest_rank = intervals[number]
        grouped.append(
            GroupedRow(
                cell=row.cell,
                encoder=row.encoder,
                name=row.name,
                mean=row.cells[-1].value or 0.0,
                beaten=bool(better[0, number]),
                alike=_names_of_alike(rows, number, different),
                lowest_rank=lowest_rank,
                highest_rank=highest_rank,
                from_best=from_best,
                low=low,
                high=high,
            )
        )
    return tuple(grouped)


def _names_of_alike(
    rows: Sequence[SummaryRow], number: int, different: Matrix
) -> tuple[str, ...]:
    """Return the names of the other rows from which row `number` does not differ significantly."""
    names = []
    for other, row in enumerate(rows):
        if other != number and not different[number, other]:
            names.append(row.name)
    return tuple(names)


def _worth(row: SummaryRow, column: Column) -> float:
    """Return a row's mean score in the last column, negated if lower is better, to `MEAN_DECIMALS` decimals."""
    scores = row.cells[-1].seeds
    mean = math.fsum(scores.values()) / len(scores)
    if column.lower:
        mean = -mean
    return round(mean, MEAN_DECIMALS)
