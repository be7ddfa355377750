"""`report.json`: the record of a run, with intervals of its scores."""

from __future__ import annotations

from typing import Any

from sentbed.protocols import Score
from sentbed.tools import plain, record_json

from sentbed_report.run_report import RunReport
from sentbed_report.score_intervals import ScoreInterval


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
