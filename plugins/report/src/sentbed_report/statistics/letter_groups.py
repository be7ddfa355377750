"""Letters (compact letter display) and rank intervals, computed from the pairs of rows that differ.

- **Letters**: rows that share a letter cannot be told apart; rows that share no letter differ. The
  insert-and-absorb algorithm (Piepho, 2004) finds all maximal sets of rows in which no two differ. Each letter
  is one set. Of these sets, the fewest are kept that still contain every pair that does not differ (Gramm et
  al., 2007).
- **Rank intervals** (Klein, Wright and Wieczorek, 2020; Mogstad et al., 2024): the best rank is 1 + the number
  of rows that are significantly better, the worst rank is the number of rows minus those that are significantly
  worse. If no test rejects wrongly, all true ranks lie in their intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, combinations, combinations_with_replacement
from string import ascii_lowercase
from typing import TYPE_CHECKING, TypeAlias

from sentbed_report.statistics.significance import Judged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.bool_]

Pairs: TypeAlias = Mapping[tuple[int, int], Judged]
"""(Number of a row, number of a later row) -> comparison of the later row with the earlier one."""

MOST_SETS = 500
"""Maximum number of maximal sets. With more, the search ends without a result: there are usually far too many
then."""
_NODES = 1000
"""Maximum number of nodes that the search for the fewest letters visits. If it is reached, there may be more
letters than needed."""


def not_comparable(pairs: Pairs) -> dict[int, str]:
    """Return the rows to leave out, so that every pair of the other rows has a p-value: row -> reason.

    Rows are left out one by one. Each step leaves out the row with the most pairs that have no p-value; of
    several such rows, the last.
    """
    failed = {}
    for pair, judged in pairs.items():
        if judged.p_value is None:
            failed[pair] = judged.reason

    reasons: dict[int, str] = {}
    while failed:
        counts = Counter(chain.from_iterable(failed))
        worst = max(counts, key=lambda row: (counts[row], row))
        reasons_of_worst: dict[str, None] = {}
        for pair in list(failed):
            if worst in pair:
                reasons_of_worst[failed.pop(pair)] = None
        reasons[worst] = "; ".join(reasons_of_worst)
    return reasons


def significantly_better(
    pairs: Pairs,
    rows: int,
    lower: bool,
) -> Matrix:
    """Return a matrix `(rows, rows)`: whether row i is significantly better than row j.

    `lower` says whether lower scores are better.
    """
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
    """Return each row's best and worst possible rank; `better[i, j]` says whether row i is better than row j."""
    lowest = 1 + better.sum(axis=0)
    highest = len(better) - better.sum(axis=1)
    return list(zip(lowest.tolist(), highest.tolist(), strict=True))


def letters_of(groups: Sequence[int]) -> str:
    """Return the letters of groups: a to z, then aa, ab and so on. Spaces separate them if any is a pair."""
    names = list(map(_letter, groups))
    has_long_name = max(map(len, names), default=0) > 1
    return " ".join(names) if has_long_name else "".join(names)


def _letter(number: int) -> str:
    before, last = divmod(number, len(ascii_lowercase))
    prefix = ""
    if before:
        prefix = _letter(before - 1)
    return prefix + ascii_lowercase[last]


def letter_groups(different: Matrix) -> tuple[tuple[int, ...], ...] | None:
    """Return the fewest groups of rows such that two rows share a group if and only if they do not differ.

    `different[i, j]` says whether rows i and j differ. Groups are sorted by their rows. None if there are more
    than `MOST_SETS` maximal sets of rows that do not differ.
    """
    sets = _maximal_sets(different)
    if sets is None:
        return None
    groups = sorted(map(tuple, map(sorted, sets)))
    return tuple(groups[number] for number in _fewest_groups(groups, different))


def _maximal_sets(different: Matrix) -> set[frozenset[int]] | None:
    """Return all maximal sets of rows in which no two differ; None if there are more than `MOST_SETS`."""
    rows = len(different)
    sets = {frozenset(range(rows))}
    for first, second in combinations(range(rows), 2):
        if not different[first, second]:
            continue
        # Insert: each set with both rows is replaced by two sets without one of them.
        kept = set()
        parts = set()
        for members in sets:
            if first in members and second in members:
                parts |= {members - {first}, members - {second}}
            else:
                kept.add(members)

        # Absorb: a part that lies within another set is dropped.
        candidates = kept | parts
        sets = kept
        for part in parts:
            if not any(part < members for members in candidates):
                sets.add(part)
        if len(sets) > MOST_SETS:
            return None
    return sets


def _fewest_groups(groups: Sequence[tuple[int, ...]], different: Matrix) -> list[int]:
    """Return the numbers of the fewest groups that contain all rows and all pairs that do not differ."""
    # For each pair: the groups that contain it, of which one must be kept.
    choices = set()
    members_of_groups = list(map(frozenset, groups))
    for pair in combinations_with_replacement(range(len(different)), 2):
        if different[pair]:
            continue
        groups_of_pair = []
        for number, members in enumerate(members_of_groups):
            if members.issuperset(pair):
                groups_of_pair.append(number)
        choices.add(tuple(groups_of_pair))

    kept = {numbers[0] for numbers in choices if len(numbers) == 1}
    undecided = sorted(filter(kept.isdisjoint, choices))
    return sorted(kept | _fewest(undecided))


def _fewest(choices: Sequence[tuple[int, ...]]) -> set[int]:
    """Return the smallest set with a number of each choice (set cover), or a larger one at `_NODES` nodes."""
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
    is_chosen = solution.x > 0.5
    return set(np.array(numbers)[is_chosen].tolist())
