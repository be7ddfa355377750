"""`report.json`: the machine-readable report."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from sentbed.protocols import ReportData, Score, StageCurve, Watched

RECORD = "report.json"

SCHEMA = 2
"""Schema version; increased when a key of `report.json` changes its meaning or is removed."""


def record_json(data: ReportData, more: Mapping[str, Any] | None = None) -> str:
    """Return the text of `report.json`, with further keys `more`. NaN and infinite numbers become null."""
    document = {
        "schema": SCHEMA,
        **fields(data, "name status error warnings started seconds"),
        "scores": [score_record(score) for score in data.scores],
        "expected": [
            fields(row, "key value tolerance decides source found difference met fits")
            for row in data.expected
        ],
        "stages": [_stage(stage) for stage in data.stages],
        "manifest": data.manifest,
    }
    if data.sections:
        document["sections"] = {
            part.key: fields(part, "title columns rows note") for part in data.sections
        }
    document.update(more or {})
    return (
        json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)
        + "\n"
    )


def plain(value: Any) -> Any:
    """Return `value` with JSON's types only; NaN and infinity become None, and other objects their `str`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # an enum of strings as the bare string
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=repr)
    if hasattr(value, "tolist"):  # a NumPy array or scalar
        return plain(value.tolist())
    if isinstance(value, (bytes, bytearray, os.PathLike)) or not isinstance(
        value, Iterable
    ):
        return str(value)
    return [plain(item) for item in value]


def score_record(score: Score) -> dict[str, Any]:
    """Return the fields of a score for JSON.

    `items` is left out; so are plugin, note, degenerate, skipped and axis if they are not set.
    """
    names = "encoder evaluator plugin task metric value direction note degenerate skipped axis protocol"
    record = fields(score, names)
    for name in ("plugin", "note", "degenerate", "skipped", "axis"):
        if not record[name]:
            del record[name]
    return record


def fields(thing: object, names: str) -> dict[str, Any]:
    """Return attributes of an object by name; `names` are separated by spaces."""
    return {name: getattr(thing, name) for name in names.split()}


def _stage(stage: StageCurve) -> dict[str, Any]:
    table = fields(
        stage, "name steps losses learning_rates metric validations best_step metrics"
    )
    return {**table, "watched": [_watched(watched) for watched in stage.watched]}


def _watched(watched: Watched) -> dict[str, Any]:
    series = []
    for index, score in enumerate(watched.scores):
        table = fields(score, "task metric direction protocol axis")
        table["values"] = [values[index] for values in watched.values]
        series.append(table)
    return {**fields(watched, "encoder evaluator steps primary"), "series": series}
