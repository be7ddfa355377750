"""Detection of axes whose labels do not change any score."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from sentbed_report.study.study_data import CellRun, StudyData


def axes_without_effect(data: StudyData) -> Iterator[str]:
    """Yield a sentence on each axis whose labels give exactly the same scores, in every task and seed.

    An axis is reported only if two cells that differ only in this axis have finished runs with the same seed.
    """
    for axis in data.axes:
        if len(axis.labels) > 1 and _changes_nothing(data, axis.name):
            yield (
                f"the axis `{axis.name}` changes no score: cells that differ in it alone are identical in every "
                "task"
            )


def _changes_nothing(data: StudyData, axis: str) -> bool:
    """Whether all cells that differ only in this axis have the same scores; False if no two can be compared."""
    earlier_scores: dict[tuple[Any, ...], Mapping[Any, float | None]] = {}
    has_comparison = False
    for cell in data.cells:
        labels_on_other_axes = dict(cell.labels)
        labels_on_other_axes.pop(axis)
        for run in cell.runs:
            if run.status != "finished":
                continue
            scores = _scores(run)
            if not scores:
                continue
            key = (*labels_on_other_axes.values(), run.prompt, run.seed)
            if key not in earlier_scores:
                earlier_scores[key] = scores
            elif scores == earlier_scores[key]:
                has_comparison = True
            else:
                return False
    return has_comparison


def _scores(run: CellRun) -> dict[Any, float | None]:
    """Return what is measured -> score, without costs and without scores that depend on the machine.

    An undefined score is None, since NaN is not equal to itself.
    """
    scores: dict[Any, float | None] = {}
    for score in run.scores:
        if score.axis != "cost" and "machine" not in score.evaluator_protocol:
            name = (
                score.encoder,
                score.evaluator,
                score.task,
                score.metric,
                score.protocol_id,
            )
            scores[name] = score.value
            if math.isnan(score.value):
                scores[name] = None
    return scores
