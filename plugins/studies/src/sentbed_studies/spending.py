"""Error spending: how the error rate of a study that stops cells is distributed over its looks.

The looks that were planned first share nine tenths of the rate, in proportion to (n - 1)² at n seeds. After
two or three seeds the variance of a cell is hardly known, and a claim rests on the assumption that cells vary
alike; with a small share for these looks, more is found when all seeds have been run.

The last tenth is reserved for looks that were not planned: at seeds that are added later, at another order of
seeds, or at other seeds. Look number j of all looks, L of which were planned, gets the share
(L + 1) / (j (j + 1)) of it. The shares of any number of such looks add up to at most 1, so the error
rate holds however often seeds are added, also if they are added because nothing was decided.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

RESERVE = 0.1
"""Share of the error rate that is reserved for looks that were not planned."""

Plan: TypeAlias = tuple[tuple[Hashable, ...], tuple[int, ...]]
"""Seeds of a study in order, each with its prompts if it has any, and the number of seeds at each look."""


def shares(plan: Plan, earlier: Sequence[Plan] = ()) -> Mapping[int, float]:
    """Return number of seeds -> share of the error rate, for each look of a plan.

    `earlier` are the plans by which the same study has decided before, in order of time. Looks at the same
    seeds in the same order are one look, with one share.
    """
    first, *later = [*earlier, plan]
    planned = _looks(first)
    added: list[tuple[Hashable, ...]] = []
    for other in later:
        for seeds in _looks(other):
            if seeds not in planned and seeds not in added:
                added.append(seeds)

    total = sum((len(seeds) - 1) ** 2 for seeds in planned)
    result = {}
    for seeds in _looks(plan):
        if seeds in planned:
            result[len(seeds)] = (1 - RESERVE) * (len(seeds) - 1) ** 2 / total
        else:
            number = len(planned) + 1 + added.index(seeds)
            result[len(seeds)] = RESERVE * (len(planned) + 1) / (number * (number + 1))
    return result


def _looks(plan: Plan) -> list[tuple[Hashable, ...]]:
    """Return the seeds of each look of a plan, in their order."""
    seeds, looks = plan
    return [seeds[:count] for count in looks]
