"""Groups of rows that cannot be told apart: letters, rank intervals, and ranks over many tasks.

All pairs of rows are compared in the last column (`TableScores.pairs`), over seeds and items, with Holm's
correction over all pairs. The pairs that differ significantly determine each row's letters and rank interval
(`sentbed_report.statistics.letter_groups`).

If a table has many tasks, Friedman's test and Nemenyi's critical difference of mean ranks answer another
question: whether other tasks, not other seeds and items, would give the same order
(`sentbed_report.statistics.ranks_over_tasks`). The ranked scores are means over the seeds that all rows have.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from operator import itemgetter
from typing import Literal

import attrs

from sentbed_report.formatting import range_text
from sentbed_report.statistics.letter_groups import (
    MOST_SETS,
    Pairs,
    letter_groups,
    letters_of,
    not_comparable,
    rank_intervals,
    significantly_better,
)
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.statistics.ranks_over_tasks import friedman, nemenyi_groups
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

MOST_ROWS = 200
"""Maximum number of rows for which groups are computed; a table with more rows has too many pairs of rows."""
FEWEST_TASKS = 5
"""Smallest number of tasks for ranks over tasks; with fewer tasks, the test has hardly any power."""
FEWEST_ROWS = 3
"""Smallest number of rows for ranks over tasks, as Friedman's test requires."""


@attrs.frozen
class GroupedRow:
    """A row of a table with its groups; two rows that share a group cannot be told apart."""

    cell: str
    encoder: str
    name: str
    """Name of the row in tables."""
    mean: float
    """Mean over the row's seeds in the last column."""
    groups: tuple[int, ...]
    """Numbers of the groups that contain the row, from 0."""
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
        """Whether this row and another cannot be told apart, which means that they share a group."""
        return not set(self.groups).isdisjoint(other.groups)

    @property
    def letters(self) -> str:
        """Letters of the row's groups."""
        return letters_of(self.groups)

    @property
    def ranks(self) -> str:
        """Interval of the row's rank, such as `2 to 4`."""
        return range_text(self.lowest_rank, self.highest_rank)


@attrs.frozen
class TaskRank:
    """Rank of a row over many tasks."""

    cell: str
    encoder: str
    name: str
    mean_rank: float
    """Mean of the row's ranks on the tasks, from 1 for the best; equal scores share the mean of their ranks."""
    groups: tuple[int, ...]
    """Numbers of the row's groups by Nemenyi's critical difference; they are not those of `GroupedRow`."""

    @property
    def letters(self) -> str:
        """Letters of the row's groups."""
        return letters_of(self.groups)


@attrs.frozen
class TaskRanks:
    """Ranks of rows over many tasks."""

    tasks: tuple[str, ...]
    rows: tuple[TaskRank, ...]
    """Ranked rows, the best first."""
    statistic: float
    """Friedman's statistic, with `len(rows) - 1` degrees of freedom."""
    p_value: float
    """p-value of Friedman's test."""
    critical: float
    """Nemenyi's critical difference; mean ranks that differ by less cannot be told apart."""
    seeds: tuple[int, ...]
    """Seeds that all rows have, over which the scores are means. If the rows share no seed, it is empty, and
    each mean is over the row's own seeds."""
    left: tuple[tuple[str, str], ...] = ()
    """Rows that are left out: name and reason."""

    @property
    def significant(self) -> bool:
        """Whether Friedman's test finds a difference; if not, all rows are in one group."""
        return self.p_value < SIGNIFICANT


@attrs.frozen
class RankGroups:
    """Groups of a table's rows whose scores in the last column cannot be told apart."""

    rows: tuple[GroupedRow, ...]
    """Grouped rows, the best first; empty if fewer than two rows can be compared."""
    left: tuple[tuple[str, str], ...] = ()
    """Rows that are left out: name and reason."""
    reason: str = ""
    """Why there are no rows, or the rows have no groups; empty otherwise."""
    basis: Basis | Literal[""] = ""
    """Sources of variance that the tests consider; empty without tests."""
    lettered: bool = True
    """Whether rows have groups; False if there would be hundreds of groups."""
    tasks: TaskRanks | None = None
    """Ranks over many tasks; None if the table has too few tasks or rows."""

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
    columns: Sequence[Column],
    scores: TableScores[RowKey],
    seeds: Sequence[int],
) -> RankGroups | None:
    """Return the groups of a table's rows in its last column; None if fewer than two rows have finished.

    Rows that have not finished, are degenerate, or cannot be compared with the others are left out.
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

    tasks = _ranks_over_tasks(rows_of_table, columns, seeds)
    if len(rows) > MOST_ROWS:
        pairs_of_rows = f"{len(rows):,} rows have {math.comb(len(rows), 2):,} pairs"
        reason = f"{pairs_of_rows}; up to {MOST_ROWS} rows are compared with each other"
        return RankGroups((), tuple(left), reason, tasks=tasks)

    column = columns[-1]
    rows.sort(key=lambda row: _worth(row, -1, column), reverse=True)
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
        return RankGroups((), tuple(left), reason, tasks=tasks)

    for number, reason in reasons.items():
        left.append((rows[number].name, reason))
    pairs = corrected(_pairs_by_number(kept, judged))
    groups = _groups_of_compared(kept, pairs, column)
    return attrs.evolve(groups, left=tuple(left), tasks=tasks)


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
    if cell.degenerate:
        return f"degenerate: {cell.degenerate}"
    if not cell.is_finite:
        return "its score is not finite"
    return ""


def _groups_of_compared(
    rows: Sequence[SummaryRow],
    pairs: Pairs,
    column: Column,
) -> RankGroups:
    """Return the groups of rows that can all be compared with each other.

    The rows are sorted, the best first. `pairs` has the comparison of every two rows.
    """
    better = significantly_better(pairs, len(rows), column.lower)
    intervals = rank_intervals(better)
    groups = letter_groups(better | better.T)
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
                groups=_groups_with(number, groups or ()),
                lowest_rank=lowest_rank,
                highest_rank=highest_rank,
                from_best=from_best,
                low=low,
                high=high,
            )
        )

    # Each pair has a p-value, and so a basis.
    basis = common_basis({judged.basis for judged in pairs.values() if judged.basis})
    if groups is None:
        reason = f"the rows have more than {MOST_SETS} overlapping groups"
        return RankGroups(
            tuple(grouped),
            reason=reason,
            basis=basis,
            lettered=False,
        )
    return RankGroups(tuple(grouped), basis=basis)


def _groups_with(row: int, groups: Collection[Collection[int]]) -> tuple[int, ...]:
    """Return the numbers of the groups that contain a row."""
    numbers = []
    for number, group in enumerate(groups):
        if row in group:
            numbers.append(number)
    return tuple(numbers)


def _ranks_over_tasks(
    rows_of_table: Sequence[SummaryRow],
    columns: Sequence[Column],
    seeds_of_table: Sequence[int],
) -> TaskRanks | None:
    """Return the ranks of a table's rows over its tasks; None if there are too few rows or tasks."""
    places = []
    for place, column in enumerate(columns):
        if column.ranked and not column.average:
            places.append(place)
    rows = []
    left = []
    for row in rows_of_table:
        if not any(row.cells[place].seeds for place in places):
            continue
        reason = _why_not_ranked(row, places, columns)
        if reason:
            left.append((row.name, reason))
        else:
            rows.append(row)
    if len(places) < FEWEST_TASKS or len(rows) < FEWEST_ROWS:
        return None

    seeds = _shared_seeds(rows, places, seeds_of_table)
    worths = []
    for row in rows:
        worths.append([_worth(row, place, columns[place], seeds) for place in places])
    test = friedman(worths)
    by_rank = sorted(zip(test.ranks, rows, strict=True), key=itemgetter(0))
    groups = nemenyi_groups(sorted(test.ranks), test.critical, test.p_value)

    ranked = []
    for number, (mean_rank, row) in enumerate(by_rank):
        groups_of_row = _groups_with(number, groups)
        ranked.append(
            TaskRank(row.cell, row.encoder, row.name, mean_rank, groups_of_row)
        )
    return TaskRanks(
        tasks=tuple(columns[place].task for place in places),
        rows=tuple(ranked),
        statistic=test.statistic,
        p_value=test.p_value,
        critical=test.critical,
        seeds=tuple(seeds),
        left=tuple(left),
    )


def _why_not_ranked(
    row: SummaryRow,
    places: Sequence[int],
    columns: Sequence[Column],
) -> str:
    """Return why a row is not ranked over the tasks in the columns `places`; empty if it is ranked."""
    if row.status != "finished":
        return "it has not finished"
    missing = []
    for place in places:
        cell = row.cells[place]
        if not cell.seeds:
            missing.append(columns[place].task)
        elif cell.degenerate or not cell.is_finite:
            return "a score of it is degenerate or not finite"
    if not missing:
        return ""
    return f"it has no score of {', '.join(missing)}"


def _shared_seeds(
    rows: Sequence[SummaryRow],
    places: Sequence[int],
    seeds: Sequence[int],
) -> list[int]:
    """Return those of `seeds` under which all rows have a score in all columns `places`."""
    shared = set(seeds)
    for row in rows:
        for place in places:
            shared.intersection_update(row.cells[place].seeds)
    return [seed for seed in seeds if seed in shared]


def _worth(
    row: SummaryRow,
    place: int,
    column: Column,
    seeds: Sequence[int] = (),
) -> float:
    """Return a row's mean score in column `place`, negated if lower is better, to `MEAN_DECIMALS` decimals.

    The mean is over `seeds`; if `seeds` is empty, over all the row's seeds.
    """
    scores = row.cells[place].seeds
    values = [scores[seed] for seed in seeds or scores]
    mean = math.fsum(values) / len(values)
    if column.lower:
        mean = -mean
    return round(mean, MEAN_DECIMALS)
