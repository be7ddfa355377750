"""Rows that the best one does not beat, and intervals of ranks, from the tests of all pairs of rows.

See Klein, Wright and Wieczorek (2020) and Mogstad et al. (2024). The best rank of a row is 1 + the number of
rows that are significantly better, the worst rank is the number of rows minus those that are significantly worse.
If no test rejects wrongly, all true ranks lie in their intervals.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

import attrs

from sentbed_report.formatting import range_text
from sentbed_report.statistics.difference import Judged, listed_sources
from sentbed_report.study.summary_row import Pair, SummaryRow
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import MEAN_DECIMALS

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
    def pairs(self) -> int:
        """Number of pairs of rows that were compared."""
        return math.comb(len(self.rows), 2)


def rank_groups(
    rows_of_table: Sequence[SummaryRow],
    column: Column,
    tests: Mapping[Pair, Judged],
) -> RankGroups | None:
    """Rank a table's rows in its last column, `column`, by its tests; None if fewer than two rows have finished.

    Rows that have not finished, have no finite score, or can be compared with no other row are left out.
    """
    left: list[tuple[str, str]] = []
    number_finished = 0
    rows = []
    for row in rows_of_table:
        if row.cells[-1].value is None:
            continue
        if row.status == "finished":
            number_finished += 1
        if row.why_not_compared:
            left.append((row.name, row.why_not_compared))
        else:
            rows.append(row)

    if number_finished < 2:
        return None
    if len(rows) > MOST_ROWS:
        reason = f"there are {len(rows):,} rows; up to {MOST_ROWS} are compared with each other"
        return RankGroups((), tuple(left), reason)

    compared = []
    reasons_of_rows: dict[str, None] = {}
    for row in rows:
        reasons = [test.reason for pair, test in tests.items() if row.key in pair]
        if all(reasons):
            left.append((row.name, "; ".join(dict.fromkeys(reasons))))
            reasons_of_rows |= dict.fromkeys(reasons)
        else:
            compared.append(row)

    if len(compared) < 2:
        reason = "; ".join(reasons_of_rows) or "fewer than two rows can be compared"
        return RankGroups((), tuple(left), reason)

    compared.sort(key=lambda row: row.worth(-1, column, MEAN_DECIMALS), reverse=True)
    grouped = _grouped(compared, column, tests)
    return RankGroups(grouped, tuple(left), basis=listed_sources(tests.values()))


def test_of_pair(tests: Mapping[Pair, Judged], pair: Pair) -> Judged | None:
    """Return the test of the second row of a pair minus the first, whichever order `tests` has it in."""
    first, second = pair
    reverse = tests.get((second, first))
    if reverse is None or reverse.estimate is None:
        return tests.get(pair, reverse)
    estimate = attrs.evolve(reverse.estimate, value=-reverse.estimate.value)
    return attrs.evolve(reverse, estimate=estimate)


def _grouped(
    rows: Sequence[SummaryRow], column: Column, tests: Mapping[Pair, Judged]
) -> tuple[GroupedRow, ...]:
    """Return the rows, the best first, with the results of their comparisons."""
    better: defaultdict[str, list[str]] = defaultdict(list)
    worse: defaultdict[str, list[str]] = defaultdict(list)
    for first, second in combinations(rows, 2):
        judged = test_of_pair(tests, (first.key, second.key))
        if judged is None or not judged.significant or not judged.difference:
            continue
        is_second_lower = judged.difference < 0
        winner, loser = second.name, first.name
        if is_second_lower != column.lower:
            winner, loser = loser, winner

        better[loser].append(winner)
        worse[winner].append(loser)

    best = rows[0]
    grouped = []
    for row in rows:
        from_best = low = high = 0.0
        if row is not best:
            low = high = math.nan
            judged = test_of_pair(tests, (best.key, row.key))
            if judged is not None and judged.difference is not None:
                from_best = judged.difference
            if judged is not None and judged.tested is not None:
                low, high = judged.tested.interval(judged.level)
        grouped.append(
            GroupedRow(
                cell=row.cell,
                encoder=row.encoder,
                name=row.name,
                mean=row.cells[-1].value or 0.0,
                beaten=best.name in better[row.name],
                beaten_by=tuple(better[row.name]),
                lowest_rank=1 + len(better[row.name]),
                highest_rank=len(rows) - len(worse[row.name]),
                from_best=from_best,
                low=low,
                high=high,
            )
        )
    return tuple(grouped)
