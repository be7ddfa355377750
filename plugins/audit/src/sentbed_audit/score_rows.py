"""`ScoreRow`: one score of a result file of any format."""

from __future__ import annotations

import attrs
from sentbed.errors import printable

LONGEST_NAME = 200
"""Maximum number of characters of a name: files of others may have names of megabytes."""


def _name(text: str) -> str:
    """Return a name, shortened and without control characters."""
    return printable(text[:LONGEST_NAME])


@attrs.frozen
class ScoreRow:
    """A score, as its file has it."""

    model: str = attrs.field(converter=_name)
    revision: str = attrs.field(converter=_name)
    """Revision of the model; empty if unknown."""
    task: str = attrs.field(converter=_name)
    split: str = attrs.field(converter=_name)
    subset: str = attrs.field(converter=_name)
    """Language or other part of the task; `default` if the task has no parts."""
    metric: str = attrs.field(converter=_name)
    score: float
    software: str = attrs.field(converter=_name)
    """Name and version of the software that computed it; empty if unknown."""
    data_revision: str = attrs.field(converter=_name)
    """Revision of the data set, or hash of the protocol; empty if unknown."""
    layout: str
    """Format of the file, such as `mteb 1.11`."""
    file: str
    seed: int | None = None
    metric_names: str = attrs.field(default="", converter=_name)
    """Possible names of the metric of a `main_score`, separated by spaces."""


COLUMNS = tuple(field.name for field in attrs.fields(ScoreRow))
"""Columns of the frame of all scores."""


@attrs.frozen
class Unreadable:
    """A file from which no score was read."""

    file: str
    reason: str
