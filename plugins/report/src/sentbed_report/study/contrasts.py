"""Tests of contrasts of cells: weighted sums of their scores, such as the effect of a label of an axis.

A contrast is estimated and tested as a difference of two cells is (`sentbed_report.statistics.significance`):
under each seed that all of its cells have, over the items that they share.
"""

from __future__ import annotations

from collections.abc import Mapping

from sentbed.errors import RunError

from sentbed_report.statistics.item_components import is_degenerate
from sentbed_report.statistics.significance import Judged, Key, TableScores, estimated, with_test


def judge_contrast(weights: Mapping[Key, float], scores: TableScores[Key]) -> Judged:
    """Return interval and p-value of the sum over cells of weight times score.

    The weights sum to 0, so that items that are easy for every cell cancel.
    """
    of_cells = {cell: scores.column.get(cell, {}) for cell in weights}
    shared = set.intersection(*(set(of_cell) for of_cell in of_cells.values()))
    if not shared:
        return Judged(reason="no seed has a score of all cells")

    seeds = sorted(shared)
    used = [of_cells[cell][seed] for seed in seeds for cell in weights]
    if any(map(is_degenerate, used)):
        return Judged(reason="a score is degenerate")
    try:
        components = scores.components.of_all(used)
    except RunError as error:
        return Judged(reason=str(error))

    values = {}
    for seed in seeds:
        values[seed] = sum(weight * of_cells[cell][seed].value for cell, weight in weights.items())
    parts = []
    rest = iter(components)
    for _ in seeds if components else ():
        terms = [weight * next(rest).values for weight in weights.values()]
        parts.append(sum(terms[1:], terms[0]))
    return with_test(estimated(values, components, parts))
