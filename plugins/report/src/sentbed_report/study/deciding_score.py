"""The deciding score of a run (`[study.decide]`), by which a study chooses a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from sentbed.protocols import START, Score

from sentbed_report.data_splits import is_development


@attrs.frozen
class Decide:
    """`[study.decide]`: settings of the deciding score, by which a study chooses a cell.

    The deciding score of a run is the mean of its scores in the deciding tasks, each in the task's first
    metric. All these tasks must have the same metric and direction.
    """

    tasks: tuple[str, ...] = ()
    """Names of the deciding tasks, as in tables. By default, all tasks on development data (with `test_data`,
    on test data) that have the same metric as the first of them."""
    evaluator: str = ""
    """Evaluator of the deciding tasks; by default any evaluator. Scores that depend on the machine, such as
    the times of `encoding-cost`, decide only if this names their evaluator, or `tasks` names their
    tasks."""
    test_data: bool = False
    """Whether scores on test data decide; the scores of the chosen cell are then too optimistic."""
    confirm: int = attrs.field(default=0)
    """Number of fresh seeds, such as 3. After the study, the chosen cell is run with them, and its reported
    scores are those of these runs. With 0, the reported scores are those of the study's seeds, and their
    intervals are the wider, the more cells were tried."""

    @confirm.validator
    def _check_confirm(self, _: Any, value: int) -> None:
        if value < 0 or value == 1:
            raise ValueError(
                f"`confirm` is {value}; give 2 fresh seeds or more, as one shows no spread, or 0 for none"
            )


def deciding_scores(scores: Iterable[Score], decide: Decide) -> tuple[Score, ...]:
    """Return the deciding scores of a run, one per task, evaluator and protocol, in the order of the run.

    Three kinds of scores are left out: costs, scores of which neither higher nor lower ones are better, and
    scores before training. If `[study.decide]` names no tasks, scores whose metric or direction differs from
    the first score's are left out too, as they have no common unit. If several encoders were scored, the first
    encoder's scores are used.
    """
    deciding: dict[tuple[str, str, str], Score] = {}
    unit = None
    for score in scores:
        if not _may_decide(score, decide):
            continue
        unit = unit or _unit(score)
        if decide.tasks or _unit(score) == unit:
            deciding.setdefault((score.evaluator, score.protocol_id, score.task), score)
    return tuple(deciding.values())


def _may_decide(score: Score, decide: Decide) -> bool:
    """Whether a score is one of those that `[study.decide]` selects."""
    if score.axis == "cost" or score.direction == "none":
        return False
    if score.encoder.endswith(START):
        return False
    is_on_test_data = not is_development(score)
    if is_on_test_data != decide.test_data:
        return False
    if decide.evaluator not in ("", score.evaluator):
        return False
    if decide.tasks:
        return score.task in decide.tasks
    depends_on_machine = "machine" in score.evaluator_protocol
    return bool(decide.evaluator) or not depends_on_machine


def described(score: Score) -> str:
    """Return task, evaluator and metric of a deciding score, and whether it is negated (lower is better)."""
    lower = ""
    if score.direction == "lower":
        lower = ", negated"
    return f"{score.task} ({score.evaluator}, {score.metric}{lower})"


def without_mean(scores: Sequence[Score]) -> str:
    """Return why scores have no mean: their metrics or directions differ. Empty if they have a mean."""
    if len(set(map(_unit, scores))) < 2:
        return ""
    listed = ", ".join(dict.fromkeys(map(described, scores)))
    return (
        f"the scores that decide have no common unit, and so no mean: {listed}; let `[study.decide]` name "
        "tasks of one metric, and the `evaluator` if several evaluators have these tasks"
    )


def _unit(score: Score) -> tuple[str, str]:
    return score.metric, score.direction
