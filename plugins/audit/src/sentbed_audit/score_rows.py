"""`ScoreRow`: one score of one file, whatever format the file has."""

from __future__ import annotations

import attrs


@attrs.frozen
class ScoreRow:
    """A score as its file says it."""

    model: str
    revision: str
    """Revision of the model; empty where the file does not say."""
    task: str
    split: str
    subset: str
    """Language or other part of the task; `default` for a task without parts."""
    metric: str
    score: float
    software: str
    """Name and version of the software that computed it; empty where the file does not say."""
    data_revision: str
    """Revision of the data set; empty where the file does not say."""
    layout: str
    """Format of the file, such as `mteb 2`."""
    file: str
    seed: int | None = None


COLUMNS = tuple(field.name for field in attrs.fields(ScoreRow))
"""Columns of the frame of all scores."""


@attrs.frozen
class Unreadable:
    """A file from which no score was read."""

    file: str
    reason: str
