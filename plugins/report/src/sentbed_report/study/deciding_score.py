"""The score by which cells are chosen: which one it is, and whether its data may be chosen on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
from sentbed.protocols import START, Score

DEVELOPMENT = frozenset(("train", "dev", "development", "validation"))
"""Values of `split` in a protocol that name data which may be chosen on."""


@attrs.frozen
class Decide:
    """`[study.decide]`: the score by which a study stops, samples and chooses cells.

    It is the mean over tasks of a run's scores, of each task that of its first metric.
    """

    tasks: tuple[str, ...] = ()
    """Tasks to decide by, by their names in tables; by default all tasks on development data, or, with
    `test_data`, all tasks on test data."""
    evaluator: str = ""
    """Evaluator whose tasks they are; by default any."""
    test_data: bool = False
    """Whether to decide by test data, which makes the score of the chosen cell too good; by default they are
    left out."""


def is_development(score: Score) -> bool:
    """Whether a score's protocol says that its data are development or training data."""
    return str(score.evaluator_protocol.get("split", "")) in DEVELOPMENT


def deciding_scores(scores: Iterable[Score], decide: Decide) -> tuple[Score, ...]:
    """Return the scores of a run that decide, one a task, in the order of the run.

    Costs, scores without a better and a worse, and those from before training are left out. Of several
    encoders the first one that was scored counts.
    """
    found: dict[tuple[str, str, str], Score] = {}
    for score in scores:
        if score.axis == "cost" or score.direction == "none" or score.encoder.endswith(START):
            continue
        if decide.evaluator not in ("", score.evaluator) or is_development(score) == decide.test_data:
            continue
        if not decide.tasks or score.task in decide.tasks:
            found.setdefault((score.evaluator, score.protocol_id, score.task), score)
    return tuple(found.values())


def mean_of(scores: Sequence[Score]) -> float | None:
    """Return the mean of deciding scores, higher is better; None if there are none."""
    values = [-score.value if score.direction == "lower" else score.value for score in scores]
    return sum(values) / len(values) if values else None
