"""Which of several rows cannot be told apart, from the pairs that differ: letters and intervals of ranks.

- **Letters** (compact letter display): rows that share a letter cannot be told apart, rows that share none
  differ. Insert and absorb (Piepho, 2004) finds all largest sets of rows no two of which differ; of these the
  least number is kept that still has every pair which does not differ (Gramm et al., 2007).
- **Intervals of ranks** (Klein, Wright and Wieczorek, 2020; Mogstad et al., 2024): from 1 + the number of
  rows that are significantly better, to the number of rows less those that are significantly worse. Where
  no pair is wrongly told apart, all true ranks lie within.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, combinations_with_replacement
from string import ascii_lowercase
from typing import TYPE_CHECKING, TypeAlias

from sentbed_report.statistics.significance import Judged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.bool_]

Pairs: TypeAlias = Mapping[tuple[int, int], Judged]
"""Numbers of two rows, the smaller one first -> the second compared with the first."""

MOST_SETS = 500
"""Largest sets of rows, beyond which their number grows without an end to be seen."""
_NODES = 1000
"""Nodes of the search for the least number of letters; where they do not do, there are more letters."""


def not_comparable(pairs: Pairs) -> dict[int, str]:
    """Return the rows to leave out, with the reason, so that every pair of the others has a p-value.

    Out goes the row with the most pairs that have none, of equal ones the last; then the next.
    """
    failed = {
        pair: judged.reason for pair, judged in pairs.items() if judged.p_value is None
    }
    reasons: dict[int, str] = {}
    while failed:
        counts = Counter(row for pair in failed for row in pair)
        worst = max(counts, key=lambda row: (counts[row], row))
        reasons[worst] = "; ".join(
            dict.fromkeys(failed[pair] for pair in failed if worst in pair)
        )
        failed = {pair: reason for pair, reason in failed.items() if worst not in pair}
    return reasons


def significantly_better(pairs: Pairs, rows: int, lower: bool) -> Matrix:
    """Return which rows are significantly better than which others, the columns; `lower`: lower is better."""
    import numpy as np

    better = np.zeros((rows, rows), bool)
    for (first, second), judged in pairs.items():
        difference = judged.difference
        if judged.significant and difference:
            second_wins = (difference < 0) == lower
            better[first, second] = not second_wins
            better[second, first] = second_wins
    return better


def rank_intervals(better: Matrix) -> list[tuple[int, int]]:
    """Return lowest and highest rank of each row, `better[i, j]` where i is significantly better than j."""
    lowest = 1 + better.sum(axis=0)
    highest = len(better) - better.sum(axis=1)
    return list(zip(lowest.tolist(), highest.tolist(), strict=True))


def letters_of(groups: Sequence[int]) -> str:
    """Return the letters of groups: a to z, then aa, ab and so on, with spaces where one is that long."""
    names = [_letter(number) for number in groups]
    if any(len(name) > 1 for name in names):
        return " ".join(names)
    return "".join(names)


def _letter(number: int) -> str:
    before, last = divmod(number, len(ascii_lowercase))
    prefix = _letter(before - 1) if before else ""
    return prefix + ascii_lowercase[last]


def letter_groups(different: Matrix) -> tuple[tuple[int, ...], ...] | None:
    """Return groups of rows, as few as can be: two rows share one if and only if they do not differ.

    `different` is symmetric, `(rows, rows)`. Groups are in the order of their first rows. None if the largest
    sets of rows that do not differ are more than hundreds.
    """
    sets = _largest_sets(different)
    if sets is None:
        return None
    groups = sorted(_members(bits, len(different)) for bits in sets)
    return tuple(groups[number] for number in _fewest_groups(groups, different))


def _members(bits: int, rows: int) -> tuple[int, ...]:
    return tuple(row for row in range(rows) if bits >> row & 1)


def _largest_sets(different: Matrix) -> list[int] | None:
    """Return all largest sets of rows no two of which differ, as bits, by insert and absorb."""
    rows = len(different)
    sets = [(1 << rows) - 1]
    for first, second in combinations(range(rows), 2):
        if not different[first, second]:
            continue
        both = 1 << first | 1 << second
        kept = [members for members in sets if members & both != both]
        parts: set[int] = set()
        for members in sets:
            if members & both == both:
                parts |= {members & ~(1 << first), members & ~(1 << second)}
        parts.difference_update(kept)
        others = [*kept, *parts]
        sets = kept + [part for part in parts if not _is_absorbed(part, others)]
        if len(sets) > MOST_SETS:
            return None
    return sets


def _is_absorbed(part: int, sets: Sequence[int]) -> bool:
    """Whether a set of rows lies within another one."""
    return any(part & members == part and part != members for members in sets)


def _fewest_groups(groups: Sequence[tuple[int, ...]], different: Matrix) -> list[int]:
    """Return the numbers of the fewest groups that have every row, and every two rows that do not differ."""
    members = [set(group) for group in groups]
    choices = set()
    for pair in combinations_with_replacement(range(len(different)), 2):
        if not different[pair]:
            choices.add(
                tuple(
                    number
                    for number, rows in enumerate(members)
                    if rows.issuperset(pair)
                )
            )
    kept = {numbers[0] for numbers in choices if len(numbers) == 1}
    undecided = sorted(numbers for numbers in choices if kept.isdisjoint(numbers))
    return sorted(kept | _fewest(undecided))


def _fewest(choices: Sequence[tuple[int, ...]]) -> set[int]:
    """Return the fewest numbers of which each choice has one, or all if that takes too long."""
    if not choices:
        return set()
    import numpy as np
    from scipy import optimize

    numbers = sorted(set[int]().union(*choices))
    has_number = np.array([np.isin(numbers, choice) for choice in choices], float)
    solution = optimize.milp(
        np.ones(len(numbers)),
        integrality=np.ones(len(numbers)),
        bounds=optimize.Bounds(0, 1),
        constraints=optimize.LinearConstraint(has_number, lb=1),
        options={"node_limit": _NODES},
    )
    if solution.x is None:
        return set(numbers)
    return {
        number for number, share in zip(numbers, solution.x, strict=True) if share > 0.5
    }
