"""The machine-readable report of a run, `report.json`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from sentbed.protocols import ReportData, Score, StageCurve, Watched

RECORD = "report.json"
"""File of a run directory that has the report."""

SCHEMA = 2
"""Version of the format. It is increased when a key is removed, or changes its meaning."""


def record_json(data: ReportData, more: Mapping[str, Any] | None = None) -> str:
    """Return the text of `report.json`. `more` has further keys. NaN and infinite numbers become null."""
    names_of_expected = "key value tolerance decides source found difference met fits"
    document = {
        "schema": SCHEMA,
        **fields(data, "name status error warnings started seconds"),
        "scores": [score_record(score) for score in data.scores],
        "expected": [fields(row, names_of_expected) for row in data.expected],
        "stages": [_stage(stage) for stage in data.stages],
        "manifest": data.manifest,
    }
    if data.sections:
        sections = {}
        for section in data.sections:
            sections[section.key] = fields(section, "title columns rows note")
        document["sections"] = sections
    document.update(more or {})
    text = json.dumps(
        plain(document),
        indent=2,
        ensure_ascii=False,
        allow_nan=False,
    )
    return text + "\n"


def plain(value: Any) -> Any:
    """Return a value with only the types of JSON.

    NaN and infinite numbers become None. An object of another type becomes its `str`.
    """
    # A bool is an int, too, and stays a bool.
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # a member of a string enum becomes a plain string
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None

    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value), key=repr)
    if hasattr(value, "tolist"):  # a NumPy array or scalar
        return plain(value.tolist())
    is_text = isinstance(value, (bytes, bytearray, os.PathLike))
    if is_text or not isinstance(value, Iterable):
        return str(value)
    return [plain(item) for item in value]


def score_record(score: Score) -> dict[str, Any]:
    """Return the fields of a score as a table for JSON.

    `items` is left out. `plugin`, `note`, `degenerate`, `skipped` and `axis` are left out if they are not set.
    """
    names = "encoder evaluator plugin task metric value direction note degenerate skipped axis protocol"
    record = fields(score, names)
    for name in ("plugin", "note", "degenerate", "skipped", "axis"):
        if not record[name]:
            del record[name]
    return record


def fields(source: object, names: str) -> dict[str, Any]:
    """Return attributes of an object, by name. `names` has the names, separated by spaces."""
    return {name: getattr(source, name) for name in names.split()}


def _stage(stage: StageCurve) -> dict[str, Any]:
    """Return the curves of a stage as a table for JSON."""
    names = "name steps losses learning_rates metric validations best_step metrics"
    table = fields(stage, names)
    return {**table, "watched": [_watched(watched) for watched in stage.watched]}


def _watched(watched: Watched) -> dict[str, Any]:
    """Return the results of a `watch` as a table for JSON, with a series of values for each score."""
    series = []
    for index, score in enumerate(watched.scores):
        table = fields(score, "task metric direction protocol axis")
        table["values"] = [values[index] for values in watched.values]
        series.append(table)
    return {**fields(watched, "encoder evaluator steps primary"), "series": series}
