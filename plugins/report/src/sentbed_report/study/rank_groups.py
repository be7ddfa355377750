"""Which rows of a table cannot be told apart: letters, intervals of ranks, and ranks over many tasks.

Every two rows are compared in the last column (`pairwise_differences.py`), over seeds and items, with Holm's
correction over all pairs. From which pairs differ follow

- **letters** (compact letter display): rows that share a letter cannot be told apart, rows that share none
  differ. Insert and absorb (Piepho, 2004) finds all largest sets of rows no two of which differ; of these the
  least number is kept that still has every pair which does not differ (Gramm et al., 2007);
- **intervals of ranks** (Klein, Wright and Wieczorek, 2020; Mogstad et al., 2024): from 1 + the number of
  rows that are significantly better, to the number of rows less those that are significantly worse. Where
  no pair is wrongly told apart, all true ranks lie within.

Where a table has many tasks, Friedman's test and Nemenyi's critical difference of mean ranks (Demšar, 2006)
ask another question: not whether other seeds and items would give the same order, but whether other tasks
would. Tasks are the blocks, and what a task's score is over plays no part. It is over the seeds that all
rows have.

Rows of stopped cells (`StudyData.stopped`) come after all others, since their means are over other seeds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import attrs

from sentbed_report.resampling import SIGNIFICANT
from sentbed_report.study.pairwise_differences import TableScores
from sentbed_report.study.significance import Judged, corrected, judge

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed_report.study.summary_tables import Summary, SummaryRow

    Matrix: TypeAlias = NDArray[np.bool_]

MOST_ROWS = 200
"""Rows of a table with groups; more have too many pairs."""
FEWEST_TASKS = 5
"""Tasks from which ranks over tasks are compared; with fewer, next to nothing can be found."""
FEWEST_ROWS = 3
"""Rows from which ranks over tasks are compared, as Friedman's test demands."""

_MOST_SETS = 500
"""Largest sets of rows, beyond which their number grows without an end to be seen."""
_NODES = 1000
"""Nodes of the search for the least number of letters; where they do not do, there are more letters."""
_DECIMALS = 9
"""To which scores are compared, since a mean over seeds has rounding errors."""


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
    basis: str = ""
    """Sources of variance of the tests."""
    lettered: bool = True
    """Whether rows have groups; they do not where there would be hundreds."""
    tasks: TaskRanks | None = None
    """Ranks over many tasks, where there are enough of them."""

    @property
    def pairs(self) -> int:
        """Number of pairs that were compared."""
        return math.comb(len(self.rows), 2)


def rank_groups(summary: Summary, scores: TableScores[tuple[str, str]]) -> RankGroups | None:
    """Return the groups of a table's rows in its last column; None if fewer than two rows have finished.

    Rows that have not finished, are degenerate or cannot be compared with the others are left out.
    """
    scored = [row for row in summary.rows if row.cells[-1].value is not None]
    finished = [row for row in scored if row.status == "finished"]
    if len(finished) < 2:
        return None
    left = [(row.name, "it has not finished") for row in scored if row.status != "finished"]
    judgeable: list[SummaryRow] = []
    for row in finished:
        mean, why = row.cells[-1].value, row.cells[-1].degenerate
        if why or mean is None or not math.isfinite(mean):
            left.append((row.name, f"degenerate: {why}" if why else "its score is not finite"))
        else:
            judgeable.append(row)
    tasks = _over_tasks(summary)
    if len(judgeable) > MOST_ROWS:
        why = f"{len(judgeable):,} rows have {math.comb(len(judgeable), 2):,} pairs; up to {MOST_ROWS} rows"
        return RankGroups((), tuple(left), f"{why} are compared with each other", tasks=tasks)
    judgeable.sort(key=lambda row: (not row.stopped, _worth(row, -1, summary)), reverse=True)
    found = scores.pairs([(row.cell, row.encoder) for row in judgeable])
    numbers = {(row.cell, row.encoder): number for number, row in enumerate(judgeable)}
    pairs = {(numbers[first], numbers[second]): one for (first, second), one in found.items()}
    apart = not_comparable(pairs)
    kept = [number for number in range(len(judgeable)) if number not in apart]
    if len(kept) < 2:
        reasons = "; ".join(dict.fromkeys(apart.values())) or "fewer than two rows can be compared"
        return RankGroups((), tuple(left), reasons, tasks=tasks)
    left += [(judgeable[number].name, why) for number, why in apart.items()]
    places = {number: place for place, number in enumerate(kept)}
    used = {
        (places[first], places[second]): one
        for (first, second), one in pairs.items()
        if first in places and second in places
    }
    return _grouped(
        summary, [judgeable[number] for number in kept], corrected(used, summary.looks), tuple(left), tasks
    )


def _grouped(
    summary: Summary,
    rows: Sequence[SummaryRow],
    pairs: dict[tuple[int, int], Judged],
    left: tuple[tuple[str, str], ...],
    tasks: TaskRanks | None,
) -> RankGroups:
    import numpy as np

    better = np.zeros((len(rows), len(rows)), bool)
    for (first, second), one in pairs.items():
        if one.significant and one.difference:
            wins = (one.difference < 0) != summary.columns[-1].lower
            better[(first, second) if wins else (second, first)] = True
    intervals = rank_intervals(better)
    groups = letter_groups(better | better.T)
    confidence = 1 - SIGNIFICANT / len(pairs) / summary.looks
    grouped = []
    for number, row in enumerate(rows):
        from_best, low, high = 0.0, 0.0, 0.0
        if number:
            one = pairs[0, number]
            own = judge(one.differences, one.item_variance, one.item_degrees, confidence)
            from_best, low, high = own.difference or 0.0, own.low or 0.0, own.high or 0.0
        of = tuple(place for place, group in enumerate(groups or ()) if number in group)
        mean = row.cells[-1].value
        assert mean is not None
        bounds = *intervals[number], from_best, low, high
        grouped.append(GroupedRow(row.cell, row.encoder, row.name, mean, of, *bounds, row.stopped))
    bases = {one.basis for one in pairs.values() if one.basis}
    basis = next(iter(bases)) if len(bases) == 1 else "items and seeds"
    reason = "" if groups is not None else f"the rows have more than {_MOST_SETS} overlapping groups"
    return RankGroups(tuple(grouped), left, reason, basis, groups is not None, tasks)


def not_comparable(pairs: dict[tuple[int, int], Judged]) -> dict[int, str]:
    """Return the rows to leave out, with the reason, so that every pair of the others has a p-value.

    Out goes the row with the most pairs that have none, of equal ones the last; then the next.
    """
    failed = {pair: one.reason for pair, one in pairs.items() if one.p_value is None}
    found: dict[int, str] = {}
    while failed:
        counts = Counter(number for pair in failed for number in pair)
        worst = max(counts, key=lambda number: (counts[number], number))
        reasons = dict.fromkeys(why for pair, why in failed.items() if worst in pair)
        found[worst] = "; ".join(reasons)
        failed = {pair: why for pair, why in failed.items() if worst not in pair}
    return found


def rank_intervals(better: Matrix) -> list[tuple[int, int]]:
    """Return lowest and highest rank of each row, `better[i, j]` where i is significantly better than j."""
    count = len(better)
    return [(1 + int(better[:, row].sum()), count - int(better[row].sum())) for row in range(count)]


def letters_of(groups: Sequence[int]) -> str:
    """Return the letters of groups: a to z, then aa, ab and so on, with spaces where one is that long."""
    named = [_letter(number) for number in groups]
    return (" " if any(len(name) > 1 for name in named) else "").join(named)


def _letter(number: int) -> str:
    rest, last = divmod(number, 26)
    return (_letter(rest - 1) if rest else "") + chr(ord("a") + last)


def letter_groups(different: Matrix) -> tuple[tuple[int, ...], ...] | None:
    """Return groups of rows, as few as can be: two rows share one if and only if they do not differ.

    `different` is symmetric, `(rows, rows)`. Groups are in the order of their first rows. None if the largest
    sets of rows that do not differ are more than hundreds.
    """
    sets = _largest_sets(different)
    if sets is None:
        return None
    return tuple(sorted(_cover(sets, different)))


def _largest_sets(different: Matrix) -> list[int] | None:
    """Return all largest sets of rows no two of which differ, as bits, by insert and absorb."""
    count = len(different)
    sets = [(1 << count) - 1]
    for first, second in combinations(range(count), 2):
        if not different[first, second]:
            continue
        both = 1 << first | 1 << second
        split = [one for one in sets if one & both == both]
        kept = [one for one in sets if one & both != both]
        # A part is absorbed by a set that stays or by another part.
        parts = {one & ~(1 << row) for one in split for row in (first, second)}
        sets = kept + [
            part
            for part in parts
            if not any(part & other == part for other in kept)
            and not any(part != other and part & other == part for other in parts)
        ]
        if len(sets) > _MOST_SETS:
            return None
    return sets


def _cover(sets: Sequence[int], different: Matrix) -> list[tuple[int, ...]]:
    """Return the fewest sets that still have every row, and every two rows that do not differ."""
    count = len(different)
    groups = sorted(tuple(row for row in range(count) if one >> row & 1) for one in sets)
    having: dict[tuple[int, int], list[int]] = {}
    for number, group in enumerate(groups):
        for first in group:
            for second in group:
                if first <= second:
                    having.setdefault((first, second), []).append(number)
    choices = {tuple(numbers) for numbers in having.values()}
    kept = {numbers[0] for numbers in choices if len(numbers) == 1}
    open_ = sorted(numbers for numbers in choices if kept.isdisjoint(numbers))
    return [groups[number] for number in sorted(kept | _fewest(open_))]


def _fewest(choices: Sequence[tuple[int, ...]]) -> set[int]:
    """Return the fewest numbers of which each choice has one, or all if that takes too long."""
    if not choices:
        return set()
    import numpy as np
    from scipy import optimize

    numbers = sorted({number for choice in choices for number in choice})
    matrix = np.array([[number in choice for number in numbers] for choice in choices], float)
    found = optimize.milp(
        np.ones(len(numbers)),
        integrality=np.ones(len(numbers)),
        bounds=optimize.Bounds(0, 1),
        constraints=optimize.LinearConstraint(matrix, lb=1),
        options={"node_limit": _NODES},
    )
    if found.x is None:
        return set(numbers)
    return {number for number, taken in zip(numbers, found.x, strict=True) if taken > 0.5}


def _over_tasks(summary: Summary) -> TaskRanks | None:
    """Return the ranks of a table's rows over its tasks; None where there are not enough of either."""
    columns = [index for index, one in enumerate(summary.columns) if one.ranked and not one.average]
    rows: list[SummaryRow] = []
    left: list[tuple[str, str]] = []
    for row in summary.rows:
        if not any(row.cells[index].seeds for index in columns):
            continue
        lacking = [summary.columns[index].task for index in columns if not row.cells[index].seeds]
        values = [row.cells[index] for index in columns if row.cells[index].seeds]
        if row.status != "finished":
            left.append((row.name, "it has not finished"))
        elif any(one.degenerate or not math.isfinite(one.value or 0.0) for one in values):
            left.append((row.name, "a score of it is degenerate or not finite"))
        elif lacking:
            left.append((row.name, f"it has no score of {', '.join(lacking)}"))
        else:
            rows.append(row)
    if len(columns) < FEWEST_TASKS or len(rows) < FEWEST_ROWS:
        return None
    shared = set.intersection(*(set(row.cells[index].seeds) for row in rows for index in columns))
    seeds = tuple(seed for seed in summary.seeds if seed in shared)
    values_of = [[_worth(row, index, summary, seeds) for index in columns] for row in rows]
    statistic, p_value, ranks, critical = friedman(values_of)
    order = sorted(range(len(rows)), key=lambda number: ranks[number])
    groups = nemenyi_groups([ranks[number] for number in order], critical, p_value)
    found = [
        TaskRank(
            rows[number].cell,
            rows[number].encoder,
            rows[number].name,
            ranks[number],
            tuple(nth for nth, group in enumerate(groups) if place in group),
        )
        for place, number in enumerate(order)
    ]
    tasks = tuple(summary.columns[index].task for index in columns)
    return TaskRanks(tasks, tuple(found), statistic, p_value, critical, seeds, tuple(left))


def friedman(values: Sequence[Sequence[float]]) -> tuple[float, float, list[float], float]:
    """Return Friedman's statistic, its p-value, mean ranks and Nemenyi's critical difference at 5 %.

    `values` are `(rows, tasks)`, higher is better, of at least three rows. The p-value is that of the
    chi-squared distribution, and 1 where all rows are equal on each task.
    """
    import numpy as np
    from scipy import stats

    table = np.array(values, float)
    count, blocks = table.shape
    ranks = stats.rankdata(-table, axis=0)
    # The correction for ties divides by zero where there is nothing but ties.
    tied = bool((table == table[0]).all())
    statistic, p_value = (0.0, 1.0) if tied else map(float, stats.friedmanchisquare(*table))
    quantile = float(stats.studentized_range.ppf(1 - SIGNIFICANT, count, np.inf)) / math.sqrt(2)
    critical = quantile * math.sqrt(count * (count + 1) / (6 * blocks))
    return statistic, p_value, [float(rank) for rank in ranks.mean(axis=1)], critical


def nemenyi_groups(
    ranks: Sequence[float], critical: float, p_value: float = 0.0
) -> tuple[tuple[int, ...], ...]:
    """Return groups of mean ranks, the least first, that differ by less than `critical`.

    All are one group where Friedman's `p_value` is not below 0.05.
    """
    if p_value >= SIGNIFICANT:
        return (tuple(range(len(ranks))),)
    # Of sorted numbers, the largest sets are runs.
    runs: list[tuple[int, ...]] = []
    for first, rank in enumerate(ranks):
        run = tuple(one for one in range(first, len(ranks)) if ranks[one] - rank < critical)
        if not runs or run[-1] > runs[-1][-1]:
            runs.append(run)
    return tuple(runs)


def _worth(row: SummaryRow, index: int, summary: Summary, seeds: Sequence[int] = ()) -> float:
    """Return a mean score, over all seeds by default, to nine decimals, signed so that higher is better."""
    values = row.cells[index].seeds
    mean = math.fsum(values[seed] for seed in seeds or values) / len(seeds or values)
    return round(-mean if summary.columns[index].lower else mean, _DECIMALS)
