"""Rules of a sampler of cells, tested on a study with an axis of labels and one of numbers."""

from __future__ import annotations

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
"""All combinations of labels but one, as `exclude` leaves them."""


def choice(subject: Subject) -> Findings:
    """It returns as many cells as are asked for, each once, until all have been chosen."""
    for batch in (1, 4):
        scores: dict[int, float | None] = {}
        while len(scores) < len(CELLS):
            count = min(batch, len(CELLS) - len(scores))
            chosen = list(subject.ready.choose(CELLS, dict(scores), count, 0))
            new = {*chosen} & ({*range(len(CELLS))} - {*scores})
            if len(new) != count or len(chosen) != count:
                yield (
                    f"with {len(scores)} of {len(CELLS)} cells chosen it returns {chosen!r:.80} for {count}",
                    "return as many indices of `cells` as `count` says, none of which is in `scores`",
                )
                return
            for cell in chosen:
                # A run that failed has no score.
                failed = cell % 7 == 3
                scores[cell] = None if failed else float(-abs(cell - 8))


def repeats(subject: Subject) -> Findings:
    """A second call with equal arguments returns the same cells, and no argument is changed."""
    scores: dict[int, float | None] = {3: 0.5, 11: None, 0: 2.0, 7: -1.0}
    passed_scores = dict(scores)
    choices = [
        list(subject.ready.choose(CELLS, passed_scores, 4, seed)) for seed in (0, 1, 0)
    ]
    if choices[0] != choices[2]:
        yield (
            "a second call gives other cells",
            "draw from a generator made of `seed` and `scores`, and keep nothing between calls",
        )

    if list(passed_scores.items()) != list(scores.items()):
        yield "it changes `scores`", "make a copy"


RULES = {"choice": choice, "repeats": repeats}
