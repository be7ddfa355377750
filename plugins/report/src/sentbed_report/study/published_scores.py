"""Scores that were read from the files that `[study.references]` names."""

from __future__ import annotations

import attrs


@attrs.frozen
class PublishedScore:
    """A score that is read from a file of results."""

    task: str
    """The study's name of the task; for a sentbed study or run, `EVALUATOR TASK (METRIC)`."""
    metrics: tuple[str, ...]
    """Names of its metric; empty if the file does not name it."""
    split: str
    subset: str
    value: float
    """The score in the unit of the study's scores; a share in [0, 1] is converted to per cent."""
    software: str
    """Name and version of the software that computed it; empty if the file does not name it."""
    data_revision: str
    """Revision of the data, or `protocol_hash` for a sentbed study or run; empty if the file does not say."""
    is_ours: bool = False
    """Whether it is from a sentbed study or run."""


@attrs.frozen
class PublishedSystem:
    """A model whose results `[study.references]` names, shown as a row of published numbers."""

    name: str
    """Name of the row."""
    model: str
    revision: str
    """Revision of the model; empty if the file does not name it."""
    source: str
    """Where the numbers are published."""
    scores: tuple[PublishedScore, ...]
    notes: tuple[str, ...] = ()
    """Sentences on scores that were left out when the files were read."""
