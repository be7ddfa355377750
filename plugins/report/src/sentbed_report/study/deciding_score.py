"""The score by which cells are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from sentbed.errors import RunError
from sentbed.protocols import START, Score

from sentbed_report.data_splits import is_development


@attrs.frozen
class Decide:
    """`[study.decide]`: the score by which a study stops, samples and chooses cells.

    It is the mean over tasks of a run's scores, of each task that of its first metric; all are of one metric.
    """

    tasks: tuple[str, ...] = ()
    """Tasks to decide by, by their names in tables; by default all tasks on development data that have
    the metric of the first, or, with `test_data`, all such tasks on test data."""
    evaluator: str = ""
    """Evaluator whose tasks they are; by default any. What depends on the machine, such as scores of `memory`
    and `throughput`, decides only if it is named here or in `tasks`."""
    test_data: bool = False
    """Whether to decide by test data, which makes the score of the chosen cell too good; by default they are
    left out."""
    confirm: int = attrs.field(default=0)
    """Fresh seeds to run the chosen cell with when the study has ended, such as 3, whose scores are reported;
    0 for none: the intervals of the chosen cell are then widened for the number of cells."""

    @confirm.validator
    def _check_confirm(self, _: Any, value: int) -> None:
        if value < 0 or value == 1:
            raise ValueError(
                f"`confirm` is {value}; give 2 fresh seeds or more, as one shows no spread, or 0 for none"
            )


def deciding_scores(scores: Iterable[Score], decide: Decide) -> tuple[Score, ...]:
    """Return the scores of a run that decide, one a task, in the order of the run.

    Costs, scores without a better and a worse, and those from before training are left out, and if no tasks
    are named, scores of another metric or direction than the first one: they have no common unit. Of several
    encoders the first one that was scored counts.
    """
    deciding: dict[tuple[str, str, str], Score] = {}
    unit = None
    for score in scores:
        if (
            score.axis == "cost"
            or score.direction == "none"
            or score.encoder.endswith(START)
        ):
            continue
        if (
            decide.evaluator not in ("", score.evaluator)
            or is_development(score) == decide.test_data
        ):
            continue
        if decide.tasks and score.task not in decide.tasks:
            continue
        if (
            not decide.tasks
            and not decide.evaluator
            and "machine" in score.evaluator_protocol
        ):
            continue
        unit = unit or _unit(score)
        if decide.tasks or _unit(score) == unit:
            deciding.setdefault((score.evaluator, score.protocol_id, score.task), score)
    return tuple(deciding.values())


def described(score: Score) -> str:
    """Return task, evaluator and metric of a deciding score, and whether it is negated."""
    lower = ", negated" if score.direction == "lower" else ""
    return f"{score.task} ({score.evaluator}, {score.metric}{lower})"


def without_mean(scores: Sequence[Score]) -> str:
    """Return why scores have no mean, being of several metrics or directions; empty if they have one."""
    if len(set(map(_unit, scores))) < 2:
        return ""
    listed = ", ".join(dict.fromkeys(map(described, scores)))
    return (
        f"the scores that decide have no common unit, and so no mean: {listed}; let `[study.decide]` name "
        "tasks of one metric, and the `evaluator` where several have them"
    )


def mean_of(scores: Sequence[Score]) -> float | None:
    """Return the mean of deciding scores, higher is better; None if there are none.

    Raises:
        RunError: if they are of several metrics or directions.
    """
    if why := without_mean(scores):
        raise RunError(why)
    if not scores:
        return None
    total = 0.0
    for score in scores:
        total += -score.value if score.direction == "lower" else score.value
    return total / len(scores)


def _unit(score: Score) -> tuple[str, str]:
    return score.metric, score.direction
