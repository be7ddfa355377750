"""Axes of a study that change no score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sentbed_report.study.study_data import CellInfo, StudyData


def axes_without_effect(data: StudyData) -> Iterator[str]:
    """Yield the name of each axis whose labels give the same scores to the last bit, in every task and seed.

    Of cells that differ in this axis alone, at least two must have finished runs under one seed.
    """
    for axis in data.axes:
        if len(axis.labels) > 1 and _changes_nothing(data, axis.name):
            yield axis.name


def _changes_nothing(data: StudyData, axis: str) -> bool:
    groups: dict[tuple[Any, ...], list[Mapping[Any, float]]] = {}
    for cell in data.cells:
        others = tuple(label for name, label in cell.labels.items() if name != axis)
        for seed, scores in _scores(cell).items():
            groups.setdefault((others, seed), []).append(scores)
    compared = [group for group in groups.values() if len(group) > 1]
    return bool(compared) and all(scores == group[0] for group in compared for scores in group)


def _scores(cell: CellInfo) -> dict[int, dict[Any, float]]:
    """Return the scores of each finished run of a cell by seed, without costs."""
    scores: dict[int, dict[Any, float]] = {}
    for run in cell.runs:
        if run.status == "finished" and run.scores:
            scores[run.seed] = {
                (score.encoder, score.evaluator, score.task, score.metric, score.protocol_id): score.value
                for score in run.scores
                if score.axis != "cost" and "machine" not in score.evaluator_protocol
            }
    return scores
