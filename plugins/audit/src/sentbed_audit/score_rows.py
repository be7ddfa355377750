"""`ScoreRow`: one score of one file, whatever format the file has."""

from __future__ import annotations

import attrs
from sentbed.errors import printable

LONGEST_NAME = 200
"""Characters of a name that are kept: a stranger's files may have names of megabytes."""


def _name(text: str) -> str:
    """Return a name as a terminal can show it."""
    return printable(text[:LONGEST_NAME])


@attrs.frozen
class ScoreRow:
    """A score as its file says it."""

    model: str = attrs.field(converter=_name)
    revision: str = attrs.field(converter=_name)
    """Revision of the model; empty where the file does not say."""
    task: str = attrs.field(converter=_name)
    split: str = attrs.field(converter=_name)
    subset: str = attrs.field(converter=_name)
    """Language or other part of the task; `default` for a task without parts."""
    metric: str = attrs.field(converter=_name)
    score: float
    software: str = attrs.field(converter=_name)
    """Name and version of the software that computed it; empty where the file does not say."""
    data_revision: str = attrs.field(converter=_name)
    """Revision of the data set, or of the protocol; empty where the file does not say."""
    layout: str
    """Format of the file, such as `mteb 1.11`."""
    file: str
    seed: int | None = None
    metric_names: str = attrs.field(default="", converter=_name)
    """Names of the metric behind a `main_score`, separated by spaces, as far as its file shows them."""


COLUMNS = tuple(field.name for field in attrs.fields(ScoreRow))
"""Columns of the frame of all scores."""


@attrs.frozen
class Unreadable:
    """A file from which no score was read."""

    file: str
    reason: str
