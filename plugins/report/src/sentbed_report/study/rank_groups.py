"""Rows that the best one does not beat, and intervals of ranks, from the tests of all pairs of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import attrs

from sentbed_report.formatting import range_text
from sentbed_report.statistics.difference import Judged, listed_sources
from sentbed_report.statistics.rank_intervals import rank_intervals
from sentbed_report.study.summary_row import Pair, SummaryRow
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import MEAN_DECIMALS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_ROWS = 100
"""Maximum number of rows that are compared with each other; more have too many pairs."""


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
    beaten_by: tuple[str, ...]
    """Names of the rows that are significantly better."""
    lowest_rank: int
    """Best rank that the tests leave possible, from 1."""
    highest_rank: int
    """Worst rank that the tests leave possible."""
    from_best: float
    """Difference from the best row over the seeds that both have, in the unit of the score; 0 for the best
    row."""
    low: float
    """Lower bound of `from_best`, valid for all tests of the column together; 0 for the best row.

    NaN for a row whose difference from the best row was not tested.
    """
    high: float
    """Upper bound of `from_best`, likewise."""

    def is_like(self, other: GroupedRow) -> bool:
        """Whether neither of two rows is significantly better than the other."""
        return other.name not in self.beaten_by and self.name not in other.beaten_by

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
    basis: str = ""
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
    tests: Mapping[Pair, Judged],
) -> RankGroups | None:
    """Rank a table's rows in its last column, `column`, by its tests; None if fewer than two rows have finished.

    Rows that have not finished, have no finite score, or cannot be compared with most others are left out.
    """
    left: list[tuple[str, str]] = []
    number_finished = 0
    rows = []
    for row in rows_of_table:
        if row.cells[-1].value is None:
            continue
        if row.status == "finished":
            number_finished += 1
        reason = why_not_ranked(row)
        if reason:
            left.append((row.name, reason))
        else:
            rows.append(row)
    if number_finished < 2:
        return None

    if len(rows) > MOST_ROWS:
        reason = f"there are {len(rows):,} rows; up to {MOST_ROWS} are compared with each other"
        return RankGroups((), tuple(left), reason)

    rows.sort(key=lambda row: _worth(row, column), reverse=True)
    reasons: dict[str, None] = {}
    kept = []
    for row in rows:
        reasons_of_row = _reasons_for_most(row, rows, tests)
        if reasons_of_row:
            left.append((row.name, "; ".join(reasons_of_row)))
            reasons |= dict.fromkeys(reasons_of_row)
        else:
            kept.append(row)
    if len(kept) < 2:
        reason = "; ".join(reasons) or "fewer than two rows can be compared"
        return RankGroups((), tuple(left), reason)

    basis = listed_sources(tests.values())
    return RankGroups(_grouped(kept, column, tests), tuple(left), basis=basis)


def _reasons_for_most(
    row: SummaryRow,
    rows: Sequence[SummaryRow],
    tests: Mapping[Pair, Judged],
) -> list[str]:
    """Return why a row cannot be compared with most others of `rows`, each reason once; empty if it can."""
    number_untested = 0
    reasons: dict[str, None] = {}
    for other in rows:
        if other is row:
            continue
        reason = _test_of(tests, row, other).reason
        if reason:
            number_untested += 1
            reasons[reason] = None
    number_of_others = len(rows) - 1
    if 2 * number_untested <= number_of_others:
        return []
    return list(reasons)


def why_not_ranked(row: SummaryRow) -> str:
    """Return why a row with a mean in the last column is not compared with the others; empty if it is."""
    cell = row.cells[-1]
    if row.status != "finished":
        return "it has not finished"
    if not cell.is_finite:
        return cell.degenerate or "its score is not finite"
    return ""


def _test_of(
    tests: Mapping[Pair, Judged],
    first: SummaryRow,
    second: SummaryRow,
) -> Judged:
    """Return the test of the difference of two rows, `second` minus `first`."""
    judged = test_of_pair(tests, (first.key, second.key))
    if judged is None:
        return Judged(reason="it is not compared")
    return judged


def test_of_pair(tests: Mapping[Pair, Judged], pair: Pair) -> Judged | None:
    """Return the test of the second row of a pair minus the first, whichever order `tests` has it in."""
    first, second = pair
    if pair in tests:
        return tests[pair]
    reverse = tests.get((second, first))
    if reverse is None:
        return None
    estimate = reverse.estimate
    if estimate is not None:
        estimate = attrs.evolve(estimate, value=-estimate.value)
    return attrs.evolve(reverse, estimate=estimate)


def _grouped(
    rows: Sequence[SummaryRow],
    column: Column,
    tests: Mapping[Pair, Judged],
) -> tuple[GroupedRow, ...]:
    """Return the rows, the best first, with the results of their comparisons."""
    import numpy as np

    better = _better(rows, column, tests)
    best = rows[0]
    grouped = []
    for number, (lowest_rank, highest_rank) in enumerate(rank_intervals(better)):
        row = rows[number]
        from_best = low = high = 0.0
        if row is not best:
            judged = _test_of(tests, best, row)
            low = high = math.nan
            if judged.estimate is not None:
                from_best = judged.estimate.value
                if not judged.reason:
                    low, high = judged.estimate.interval(judged.level)
        beaten_by = []
        for other in np.flatnonzero(better[:, number]).tolist():
            beaten_by.append(rows[other].name)
        grouped.append(
            GroupedRow(
                cell=row.cell,
                encoder=row.encoder,
                name=row.name,
                mean=row.cells[-1].value or 0.0,
                beaten=bool(better[0, number]),
                beaten_by=tuple(beaten_by),
                lowest_rank=lowest_rank,
                highest_rank=highest_rank,
                from_best=from_best,
                low=low,
                high=high,
            )
        )
    return tuple(grouped)


def _better(
    rows: Sequence[SummaryRow],
    column: Column,
    tests: Mapping[Pair, Judged],
) -> NDArray[np.bool_]:
    """Return for each two rows whether the first is significantly better than the second, `(rows, rows)`."""
    import numpy as np

    better = np.zeros((len(rows), len(rows)), bool)
    for first, second in combinations(range(len(rows)), 2):
        judged = _test_of(tests, rows[first], rows[second])
        if not judged.significant or not judged.difference:
            continue
        second_is_lower = judged.difference < 0
        if second_is_lower == column.lower:
            better[second, first] = True
        else:
            better[first, second] = True
    return better


def _worth(row: SummaryRow, column: Column) -> float:
    """Return a row's mean score in the last column, negated if lower is better, to `MEAN_DECIMALS` decimals."""
    scores = row.cells[-1].seeds
    mean = math.fsum(scores.values()) / len(scores)
    if column.lower:
        mean = -mean
    return round(mean, MEAN_DECIMALS)
