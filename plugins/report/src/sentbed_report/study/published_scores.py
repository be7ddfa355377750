"""Scores and systems that were read from the files of results which `[study.references]` names."""

from __future__ import annotations

import attrs


@attrs.frozen
class PublishedScore:
    """A score that was read from a file of results."""

    task: str
    """Name of the task in the study; if the file is from a sentbed study or run, `EVALUATOR TASK (METRIC)`."""
    metrics: tuple[str, ...]
    """Names of its metric, which may have several; empty if the file does not name the metric."""
    split: str
    subset: str
    value: float
    """The score in the unit of the study's scores; shares in [0, 1] were converted to per cent."""
    software: str
    """Name and version of the software that computed the score; empty if the file does not name it."""
    data_revision: str
    """Revision of the data; `protocol_hash` if the file is from a sentbed study or run; empty if unknown."""
    is_ours: bool = False
    """Whether the file is from a sentbed study or run."""


@attrs.frozen
class PublishedSystem:
    """A model whose results `[study.references]` names; its scores are a row of published numbers."""

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
