"""`report.json`: writing of a run's record with intervals, and reading of records."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

from sentbed.errors import LONGEST_MESSAGE, printable
from sentbed.helpers import read_json
from sentbed.protocols import Score
from sentbed.tools import plain, record_json

from sentbed_report.run_report import RunReport
from sentbed_report.score_intervals import ScoreInterval

_KEPT = 900
"""Number of characters that a shortened text keeps at its beginning, and as many at its end."""


def read_record(path: Path) -> Any:
    """Return the content of a JSON file of a run or study, made safe to print (see `printable_data`).

    The file may come from someone else.

    Raises:
        OSError: if the file cannot be opened.
        ValueError: if it is not JSON, or has a whole number that is too large for a float.
        DataError: if it is not a regular file, or is too large.
    """
    return printable_data(read_json(path))


def printable_data(value: Any) -> Any:
    """Return JSON data whose texts and keys are safe to show on a terminal, in a table and in a plot.

    Control characters are escaped. A text of more than `LONGEST_MESSAGE` characters is shortened to its
    beginning and end; its length and hash are added, so that different texts stay different.

    Raises:
        ValueError: for a whole number that is too large for a float.
    """
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError("a whole number has more than 300 digits")
    if isinstance(value, str):
        return _printable_text(value)
    if isinstance(value, list):
        return list(map(printable_data, value))
    if isinstance(value, dict):
        content = {}
        for key, item in value.items():
            content[_printable_text(key)] = printable_data(item)
        return content
    return value


def _printable_text(text: str) -> str:
    text = printable(text)
    if len(text) <= LONGEST_MESSAGE:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[:_KEPT]} [... {len(text):,} characters, {digest[:16]} ...] {text[-_KEPT:]}"


def to_json(data: RunReport) -> str:
    """Return the content of `report.json`."""
    more: dict[str, Any] = {}
    if data.intervals:
        intervals = {id(interval.score): interval for interval in data.intervals}
        more["scores"] = []
        for score in data.scores:
            more["scores"].append(_score(score, intervals.get(id(score))))
    return record_json(data, more)


def _score(score: Score, interval: ScoreInterval | None) -> dict[str, Any]:
    record: dict[str, Any] = plain(score)
    if interval is None:
        return record
    record["interval"] = interval.interval
    if interval.change is not None:
        record["change"] = {
            "difference": interval.change.difference,
            "interval": interval.change.interval,
            "p_value": interval.change.p_value,
        }
    return record
