"""Which rows of a table cannot be told apart: letters, intervals of ranks, and ranks over many tasks.

Every two rows are compared in the last column (`TableScores.pairs`), over seeds and items, with Holm's
correction over all pairs. From which pairs differ follow letters and intervals of ranks
(`sentbed_report.statistics.letter_groups`).

Where a table has many tasks, Friedman's test and Nemenyi's critical difference of mean ranks ask another
question: not whether other seeds and items would give the same order, but whether other tasks would
(`sentbed_report.statistics.ranks_over_tasks`). They are over the seeds that all rows have.

Rows of stopped cells (`StudyData.stopped`) come after all others, since their means are over other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import attrs

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
    TableScores,
    common_basis,
    corrected,
    with_test,
)
from sentbed_report.study.summary_row import RowKey, SummaryRow
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import MEAN_DECIMALS

MOST_ROWS = 200
"""Largest number of rows for which groups are computed; more have too many pairs."""
FEWEST_TASKS = 5
"""Tasks from which ranks over tasks are compared; with fewer, next to nothing can be found."""
FEWEST_ROWS = 3
"""Rows from which ranks over tasks are compared, as Friedman's test demands."""


@attrs.frozen
class GroupedRow:
    """A row of a table, with the rows that it cannot be told apart from."""

    cell: str
    encoder: str
    name: str
    """Name in tables."""
    mean: float
    """Mean over its seeds in the last column."""
    groups: tuple[int, ...]
    """Numbers of its groups, from 0."""
    lowest_rank: int
    """Interval of its rank, from 1 for the best."""
    highest_rank: int
    from_best: float
    """Its difference from the best row, over the seeds that both have, and bounds of it that hold for all
    pairs at once (Bonferroni); each is 0 for the best row. In the unit of the score."""
    low: float
    high: float
    stopped: bool = False
    """Whether its cell was stopped, so that `mean` is over other seeds than those of other rows."""

    def is_like(self, other: GroupedRow) -> bool:
        """Whether it cannot be told apart from another row: they share a group."""
        return not set(self.groups).isdisjoint(other.groups)

    @property
    def letters(self) -> str:
        """Letters of its groups."""
        return letters_of(self.groups)

    @property
    def ranks(self) -> str:
        """Interval of its rank as text."""
        low, high = self.lowest_rank, self.highest_rank
        return str(low) if low == high else f"{low} to {high}"


@attrs.frozen
class TaskRank:
    """Rank of a row over many tasks."""

    cell: str
    encoder: str
    name: str
    mean_rank: float
    """Mean of its ranks, 1 for the best; equal scores share the mean of their ranks."""
    groups: tuple[int, ...]
    """Numbers of its groups, which are not those of `GroupedRow`."""

    @property
    def letters(self) -> str:
        """Letters of its groups."""
        return letters_of(self.groups)


@attrs.frozen
class TaskRanks:
    """Ranks of rows over many tasks."""

    tasks: tuple[str, ...]
    rows: tuple[TaskRank, ...]
    """The best first."""
    statistic: float
    """Friedman's, with `len(rows) - 1` degrees of freedom."""
    p_value: float
    critical: float
    """Nemenyi's critical difference: mean ranks that differ by less cannot be told apart."""
    seeds: tuple[int, ...]
    """Seeds that the scores are means over, which all rows have; empty if there are none, and each row has
    its mean over its own."""
    left: tuple[tuple[str, str], ...] = ()
    """Names of rows that are left out, with the reason."""

    @property
    def significant(self) -> bool:
        """Whether Friedman's test finds any difference, without which there is one group."""
        return self.p_value < SIGNIFICANT


@attrs.frozen
class RankGroups:
    """Rows of a table by what its last column can tell apart."""

    rows: tuple[GroupedRow, ...]
    """The best first; empty where fewer than two rows can be compared."""
    left: tuple[tuple[str, str], ...] = ()
    """Names of rows that are left out, with the reason."""
    reason: str = ""
    """Why there are no groups, or no letters."""
    basis: Basis | Literal[""] = ""
    """Sources of variance of the tests."""
    lettered: bool = True
    """Whether rows have groups; they do not where there would be hundreds."""
    tasks: TaskRanks | None = None
    """Ranks over many tasks, where there are enough of them."""

    @property
    def pairs(self) -> int:
        """Number of pairs that were compared."""
        return math.comb(len(self.rows), 2)


def rank_groups(
    rows_of_table: Sequence[SummaryRow],
    columns: Sequence[Column],
    scores: TableScores[RowKey],
    seeds: Sequence[int],
    looks: int,
) -> RankGroups | None:
    """Return the groups of a table's rows in its last column; None if fewer than two rows have finished.

    Rows that have not finished, are degenerate or cannot be compared with the others are left out.
    """
    finished = []
    left = []
    for row in rows_of_table:
        if row.cells[-1].value is None:
            continue
        if row.status == "finished":
            finished.append(row)
        else:
            left.append((row.name, "it has not finished"))
    if len(finished) < 2:
        return None
    rows = []
    for row in finished:
        cell = row.cells[-1]
        if cell.degenerate:
            left.append((row.name, f"degenerate: {cell.degenerate}"))
        elif not math.isfinite(cell.value or 0.0):
            left.append((row.name, "its score is not finite"))
        else:
            rows.append(row)
    tasks = _ranks_over_tasks(rows_of_table, columns, seeds)
    if len(rows) > MOST_ROWS:
        pairs_of_rows = f"{len(rows):,} rows have {math.comb(len(rows), 2):,} pairs"
        reason = f"{pairs_of_rows}; up to {MOST_ROWS} rows are compared with each other"
        return RankGroups((), tuple(left), reason, tasks=tasks)

    rows.sort(
        key=lambda row: (not row.stopped, _worth(row, -1, columns[-1])), reverse=True
    )
    judged = scores.pairs([row.key for row in rows])
    pairs = dict(zip(combinations(range(len(rows)), 2), judged.values(), strict=True))
    reasons = not_comparable(pairs)
    kept = [number for number in range(len(rows)) if number not in reasons]
    if len(kept) < 2:
        reason = "fewer than two rows can be compared"
        if reasons:
            reason = "; ".join(dict.fromkeys(reasons.values()))
        return RankGroups((), tuple(left), reason, tasks=tasks)
    left += [(rows[number].name, reason) for number, reason in reasons.items()]
    judged_kept = [pairs[pair] for pair in combinations(kept, 2)]
    pairs = dict(zip(combinations(range(len(kept)), 2), judged_kept, strict=True))
    groups = _grouped(
        [rows[number] for number in kept], corrected(pairs, looks), columns[-1], looks
    )
    return attrs.evolve(groups, left=tuple(left), tasks=tasks)


def _grouped(
    rows: Sequence[SummaryRow], pairs: Pairs, column: Column, looks: int
) -> RankGroups:
    """Return the groups of rows, the best first, of which every pair was compared."""
    better = significantly_better(pairs, len(rows), column.lower)
    intervals = rank_intervals(better)
    groups = letter_groups(better | better.T)
    # The interval of the difference from the best row holds for all pairs at once.
    confidence = 1 - SIGNIFICANT / len(pairs) / looks
    grouped = []
    for number, row in enumerate(rows):
        from_best, low, high = 0.0, 0.0, 0.0
        if number:
            judged = with_test(pairs[0, number], confidence)
            from_best = judged.difference or 0.0
            low, high = judged.interval or (0.0, 0.0)
        groups_of_row = [
            place for place, group in enumerate(groups or ()) if number in group
        ]
        grouped.append(
            GroupedRow(
                row.cell,
                row.encoder,
                row.name,
                row.cells[-1].value or 0.0,
                tuple(groups_of_row),
                *intervals[number],
                from_best,
                low,
                high,
                row.stopped,
            )
        )
    bases = {judged.basis for judged in pairs.values() if judged.basis}
    basis = common_basis(bases) if bases else "items and seeds"
    if groups is None:
        reason = f"the rows have more than {MOST_SETS} overlapping groups"
        return RankGroups(tuple(grouped), reason=reason, basis=basis, lettered=False)
    return RankGroups(tuple(grouped), basis=basis)


def _ranks_over_tasks(
    rows_of_table: Sequence[SummaryRow],
    columns: Sequence[Column],
    seeds_of_table: Sequence[int],
) -> TaskRanks | None:
    """Return the ranks of a table's rows over its tasks; None where there are not enough of either."""
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
    seeds = [seed for seed in seeds_of_table if _has_seed(rows, places, seed)]
    worths = []
    for row in rows:
        worths.append([_worth(row, place, columns[place], seeds) for place in places])
    test = friedman(worths)
    order = sorted(range(len(rows)), key=test.ranks.__getitem__)
    groups = nemenyi_groups(
        [test.ranks[number] for number in order], test.critical, test.p_value
    )
    ranked = []
    for place, number in enumerate(order):
        row = rows[number]
        groups_of_row = tuple(nth for nth, group in enumerate(groups) if place in group)
        ranked.append(
            TaskRank(row.cell, row.encoder, row.name, test.ranks[number], groups_of_row)
        )
    return TaskRanks(
        tuple(columns[place].task for place in places),
        tuple(ranked),
        test.statistic,
        test.p_value,
        test.critical,
        tuple(seeds),
        tuple(left),
    )


def _why_not_ranked(
    row: SummaryRow, places: Sequence[int], columns: Sequence[Column]
) -> str:
    """Return why a row has no rank over the tasks of the columns at `places`; empty if it has one."""
    if row.status != "finished":
        return "it has not finished"
    missing = []
    for place in places:
        cell = row.cells[place]
        if not cell.seeds:
            missing.append(columns[place].task)
        elif cell.degenerate or not math.isfinite(cell.value or 0.0):
            return "a score of it is degenerate or not finite"
    return f"it has no score of {', '.join(missing)}" if missing else ""


def _has_seed(rows: Sequence[SummaryRow], places: Sequence[int], seed: int) -> bool:
    """Whether all rows have a score under a seed in all columns at `places`."""
    return all(seed in row.cells[place].seeds for row in rows for place in places)


def _worth(
    row: SummaryRow, place: int, column: Column, seeds: Sequence[int] = ()
) -> float:
    """Return a mean score, over all seeds by default, to nine decimals, signed so that higher is better."""
    values = row.cells[place].seeds
    used = seeds or list(values)
    mean = math.fsum(values[seed] for seed in used) / len(used)
    if column.lower:
        mean = -mean
    return round(mean, MEAN_DECIMALS)
