"""The report of a run: `report.json`, which machines read, and the pages of plugins."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import attrs

from sentbed._files import write_atomic
from sentbed._json import plain
from sentbed._recipe.recipe import resolved_toml
from sentbed._run.context import RunContext
from sentbed.protocols import ExpectedRow, ReportData, RunStatus

RECORD = "report.json"
"""File of a run directory that has the report."""


def write_report(
    context: RunContext,
    status: RunStatus,
    error: BaseException | None,
) -> Path:
    """Write the report of a run that has ended. Return the file that the user should open."""
    recipe = resolved_toml(context.recipe)
    data = context.history.report_data(context.run, status, error, recipe)
    sections = context.hooks.report_sections(run=context.run, data=data)
    data = attrs.evolve(data, sections=tuple(chain.from_iterable(sections)))

    record = context.directory / RECORD
    # The numbers are written first, so that they are on disk even if writing the pages fails.
    write_atomic(record, record_json(data))
    pages = context.hooks.write_report(run=context.run, data=data)
    return next(iter(pages), record)


def record_json(data: ReportData) -> str:
    """Return the text of `report.json`. NaN and infinite numbers become null."""
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
