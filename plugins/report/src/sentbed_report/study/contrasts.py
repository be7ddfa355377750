"""Tests of contrasts of cells: weighted sums of their scores, such as the effect of a label of an axis.

A contrast is estimated and tested as a difference of two cells is (`significance.py`): under each seed that
all of its cells have, over the items that they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sentbed.errors import RunError

from sentbed_report.item_components import ItemComponents, is_degenerate, require_same_items
from sentbed_report.study.pairwise_differences import TableScores
from sentbed_report.study.significance import Judged, Key, estimated, with_test

if TYPE_CHECKING:
    from sentbed_report.weighted_statistics import Floats


def judge_contrast(weights: Mapping[Key, float], scores: TableScores[Key]) -> Judged:
    """Return interval and p-value of the sum over cells of weight times score.

    The weights sum to 0, so that items that are easy for every cell cancel.
    """
    of_cells = {key: scores.column.get(key, {}) for key in weights}
    seeds = set.intersection(*(set(of_cell) for of_cell in of_cells.values()))
    every = [of_cell[seed] for of_cell in of_cells.values() for seed in of_cell]
    if any(is_degenerate(score) for score in every):
        return Judged(reason="a score is degenerate")
    differences = {}
    for seed in sorted(seeds):
        differences[seed] = sum(weight * of_cells[key][seed].value for key, weight in weights.items())
    components: list[ItemComponents | None] = []
    parts: list[Floats] = []
    try:
        for score in every[1:]:
            require_same_items(every[0], score)
        for seed in differences:
            of_seed = {key: scores.components.of(of_cells[key][seed]) for key in weights}
            components += of_seed.values()
            parts += _weighted_sum(weights, of_seed)
    except RunError as error:
        return Judged(reason=str(error))
    if not differences:
        return Judged(reason="no seed has a score of all cells")
    return with_test(estimated(differences, components, parts))


def _weighted_sum(
    weights: Mapping[Key, float], components: Mapping[Key, ItemComponents | None]
) -> Iterator[Floats]:
    """Yield the components of a contrast under one seed; nothing where a score has no items."""
    terms = []
    for key, part in components.items():
        if part is None:
            return
        terms.append(weights[key] * part.values)
    yield sum(terms[1:], terms[0])
