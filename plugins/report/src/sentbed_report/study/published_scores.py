"""Scores that were read from the files that `[study.references]` names."""

from __future__ import annotations

import attrs


@attrs.frozen
class PublishedScore:
    """A score that is read from a file of results."""

    task: str
    """Task, as the study calls it; of a study or run of ours `EVALUATOR TASK (METRIC)`."""
    metrics: tuple[str, ...]
    """Names of its metric; empty where the file does not say."""
    split: str
    subset: str
    value: float
    """The score in the unit of ours: per cent, of a share."""
    software: str
    """Name and version of what computed it; empty where the file does not say."""
    data_revision: str
    """Revision of the data, or `protocol_hash` of a protocol of ours; empty where the file does not say."""
    is_ours: bool = False
    """Whether a run or study of ours has it."""


@attrs.frozen
class PublishedSystem:
    """A model of a path that `[study.references]` names: a row of published numbers."""

    name: str
    """Name of the row."""
    model: str
    revision: str
    """Revision of the model; empty where the file does not say."""
    source: str
    """Where the numbers are published."""
    scores: tuple[PublishedScore, ...]
    notes: tuple[str, ...] = ()
    """Sentences on scores that were left out when the files were read."""
