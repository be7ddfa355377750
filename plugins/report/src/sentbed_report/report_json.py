"""`report.json`: the record of a run, with intervals of its scores."""

from __future__ import annotations

from typing import Any

from sentbed.protocols import ReportData
from sentbed.tools import plain, record_json

from sentbed_report.degenerate_scores import without_degenerate_values
from sentbed_report.statistics.cell_scores import CellScores
from sentbed_report.statistics.score_interval import mean_interval


def to_json(data: ReportData) -> str:
    """Return the content of `report.json`; a score that has items also has its 95 % interval over them."""
    scores = []
    measured = without_degenerate_values(data.scores)
    for score, with_value in zip(data.scores, measured, strict=True):
        record: dict[str, Any] = plain(score)
        interval, _ = mean_interval(CellScores({(0, ""): (with_value,)}))
        if interval is not None:
            record["interval"] = interval
        scores.append(record)
    return record_json(data, {"scores": scores})
