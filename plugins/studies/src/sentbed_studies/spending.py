"""Error spending: how the error rate of a study that stops cells is distributed over its looks.

At a look, cells are compared under the seeds so far. A plan has all looks that a recipe asks for. A study has had
several plans if its recipe was changed.

The looks of the first plan share nine tenths of the rate, in proportion to (n - 1)² at n seeds. After two or
three seeds, the variance of a cell is hardly known, and a claim rests on the assumption that cells vary alike.
These looks get a small share, so that more is found when all seeds have been run.

The last tenth of the rate is reserved for looks that are added to the first plan: after further seeds, after
other seeds, or after the same seeds in another order. If the first plan has L looks, look number j (j > L) gets
the share (L + 1) / (j (j + 1)) of this tenth. The shares of any number of added looks sum to at most 1, so the
error rate holds however often seeds are added, even if they are added because nothing was decided.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

RESERVE = 0.1
"""Share of the error rate that is reserved for looks that are not in the first plan."""

Plan: TypeAlias = tuple[tuple[Hashable, ...], tuple[int, ...]]
"""Plan of looks: the seeds of a study in order (each with its prompts, if the study has prompts), and the
number of seeds at each look."""


def shares(plan: Plan, earlier: Sequence[Plan] = ()) -> Mapping[int, float]:
    """Return the share of the error rate of each look of a plan, by the number of seeds at the look.

    `earlier` are the plans by which the same study has decided before, in order of time. Looks after the same
    seeds in the same order are the same look, with one share.
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
        count = len(seeds)
        if seeds in planned:
            result[count] = (1 - RESERVE) * (count - 1) ** 2 / total
        else:
            number = len(planned) + 1 + added.index(seeds)
            result[count] = RESERVE * (len(planned) + 1) / (number * (number + 1))
    return result


def _looks(plan: Plan) -> list[tuple[Hashable, ...]]:
    """Return the seeds of each look of a plan."""
    seeds, looks = plan
    return [seeds[:count] for count in looks]
