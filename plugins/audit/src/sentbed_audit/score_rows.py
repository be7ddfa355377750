"""The form in which scores of all formats of result files are read (`ScoreRow`)."""

from __future__ import annotations

import attrs
from sentbed.errors import printable

LONGEST_NAME = 200
"""Maximum number of characters of a name; longer ones are cut, since a name in someone else's file may have
megabytes."""


def _name(text: str) -> str:
    """Return a name, shortened and without control characters."""
    return printable(text[:LONGEST_NAME])


@attrs.frozen
class ScoreRow:
    """One score, with the names and conditions that its file has."""

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
    """Revision of the data set or, in results of sentbed, hash of the evaluation's protocol; empty if unknown."""
    layout: str
    """Format of the file, such as `mteb 1.11`; `table` is a CSV file."""
    file: str
    seed: int | None = None
    metric_names: str = attrs.field(default="", converter=_name)
    """If `metric` is `main_score`: the metrics that this score may be, separated by spaces."""


COLUMNS = tuple(field.name for field in attrs.fields(ScoreRow))
"""Columns of the frame of all scores."""


@attrs.frozen
class Unreadable:
    """A file that could not be read, and the reason."""

    file: str
    reason: str
