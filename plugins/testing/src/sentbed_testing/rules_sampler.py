"""Rules of a sampler, which chooses the cells of a study (combinations of its axes' values) that are run."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from sentbed_testing.component_under_test import Subject

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

CELLS = [
    {"pooler": pooler, "temperature": temperature}
    for pooler in ("first", "last", "mean", "mask")
    for temperature in (0.01, 0.02, 0.05, 0.1, 1.0)
    if (pooler, temperature) != ("last", 0.05)
]
"""Cells of the study: all combinations except one, as if `exclude` had removed it."""


def choice(subject: Subject) -> Findings:
    """It returns the requested number of cells, none of them twice, until all cells have been chosen."""
    for batch_size in (1, 4):
        scores: dict[int, float | None] = {}
        while len(scores) < len(CELLS):
            remaining = set(range(len(CELLS))) - scores.keys()
            count = min(batch_size, len(remaining))
            cells = deepcopy(CELLS)
            chosen = list(subject.ready.choose(cells, dict(scores), count, 0))
            if len(chosen) != count or len(remaining.intersection(chosen)) != count:
                yield (
                    f"with {len(scores)} of {len(CELLS)} cells chosen, it returns {chosen!r:.60} for a "
                    f"`count` of {count}",
                    "return `count` different indices of `cells` that are not in `scores`",
                )
                return

            for cell in chosen:
                # A failed run has no score.
                failed = cell % 7 == 3
                scores[cell] = None if failed else float(-abs(cell - 8))


def repeats(subject: Subject) -> Findings:
    """A second call with equal arguments returns the same cells, and does not change its arguments."""
    scores: dict[int, float | None] = {3: 0.5, 11: None, 0: 2.0, 7: -1.0}
    passed_scores = dict(scores)
    passed_cells = deepcopy(CELLS)
    choices = []
    for seed in (0, 1, 0):
        chosen = subject.ready.choose(passed_cells, passed_scores, 4, seed)
        choices.append(list(chosen))

    if choices[0] != choices[2]:
        yield (
            "a second call gives other cells",
            "seed a random generator from `seed` and `scores`, and keep nothing between calls",
        )

    if list(passed_scores.items()) != list(scores.items()):
        yield "it changes `scores`", "change a copy"

    if passed_cells != CELLS:
        yield "it changes `cells`", "change a copy"


RULES = {"choice": choice, "repeats": repeats}
