"""The machine-readable report of a run, `report.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sentbed._json import plain
from sentbed.protocols import ExpectedRow, ReportData

RECORD = "report.json"
"""File of a run directory that has the report."""


def record_json(data: ReportData, more: Mapping[str, Any] | None = None) -> str:
    """Return the text of `report.json`. `more` has further keys. NaN and infinite numbers become null."""
    document = {
        "name": data.name,
        "status": data.status,
        "error": data.error,
        "warnings": data.warnings,
        "started": data.started,
        "seconds": data.seconds,
        "scores": data.scores,
        "expected": [_expected(row) for row in data.expected],
        "stages": data.stages,
        "manifest": data.manifest,
    }
    if data.sections:
        document["sections"] = {section.key: section for section in data.sections}
    document.update(more or {})
    text = json.dumps(
        plain(document),
        indent=2,
        ensure_ascii=False,
        allow_nan=False,
    )
    return text + "\n"


def _expected(row: ExpectedRow) -> dict[str, Any]:
    """Return the table of an expected number, with what follows from it."""
    return {
        **plain(row),
        "decides": row.decides,
        "difference": row.difference,
        "met": row.met,
    }
