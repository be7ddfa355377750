"""Axes of a study that change no score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sentbed_report.study.study_data import CellRun, StudyData


def axes_without_effect(data: StudyData) -> Iterator[str]:
    """Yield the name of each axis whose labels give the same scores to the last bit, in every task and seed.

    Of cells that differ in this axis alone, at least two must have finished runs under one seed.
    """
    for axis in data.axes:
        if len(axis.labels) > 1 and _changes_nothing(data, axis.name):
            yield axis.name


def _changes_nothing(data: StudyData, axis: str) -> bool:
    """Whether cells that differ in an axis alone have the same scores; not if there are no such cells."""
    groups: dict[tuple[Any, ...], list[Mapping[Any, float]]] = {}
    for cell in data.cells:
        others = [label for name, label in cell.labels.items() if name != axis]
        for run in cell.runs:
            if run.status == "finished" and run.scores:
                groups.setdefault((*others, run.prompt, run.seed), []).append(
                    _scores(run)
                )
    compared = [group for group in groups.values() if len(group) > 1]
    return bool(compared) and all(
        group.count(group[0]) == len(group) for group in compared
    )


def _scores(run: CellRun) -> dict[Any, float]:
    """Return the scores of a run, without costs."""
    scores = {}
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
    return scores
