"""The form in which scores of all formats of result files are read (`ScoreRow`)."""

from __future__ import annotations

import attrs


@attrs.frozen
class ScoreRow:
    """One score, with the names and conditions that its file has."""

    model: str = attrs.field(converter=str)
    revision: str = attrs.field(converter=str)
    """Revision of the model; empty if unknown."""
    task: str = attrs.field(converter=str)
    split: str = attrs.field(converter=str)
    subset: str = attrs.field(converter=str)
    """Language or other part of the task; `default` if the task has no parts."""
    metric: str = attrs.field(converter=str)
    score: float
    data_revision: str = attrs.field(converter=str)
    """Revision of the data set; empty if unknown."""
    file: str
    seed: str = ""


COLUMNS = tuple(field.name for field in attrs.fields(ScoreRow))
"""Columns of the frame of all scores."""
