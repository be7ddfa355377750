"""Hooks of sentbed-report: pages and tables of runs, and their commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import RunError, hookimpl
from sentbed.protocols import Evaluation, ReportData

if TYPE_CHECKING:
    from sentbed.protocols import Run

required = True
"""The run ends if the report or the items cannot be written."""


@hookimpl
def commands() -> Mapping[str, str]:
    """Return the commands `compare` and `table`."""
    return {
        "compare": "sentbed_report.commands:compare",
        "table": "sentbed_report.commands:table",
    }


@hookimpl
def scores_ready(run: Run, evaluation: Evaluation) -> None:
    """Write the items of an evaluation's scores to `items/`."""
    from sentbed_report.score_items import keep_items

    keep_items(run.directory, evaluation.scores)


@hookimpl
def tracker_state() -> tuple[str, Mapping[str, Any]]:
    """Return the directory of items, which is needed to resume a run."""
    from sentbed_report.score_items import DIRECTORY

    return "items", {"files": [DIRECTORY]}


@hookimpl
def write_report(run: Run, data: ReportData) -> Path:
    """Write `report.html`, `report.md` and `tables/`."""
    from sentbed_report.run_page.scores_section import run_summaries
    from sentbed_report.score_items import attach_items
    from sentbed_report.study.exports import write_tables
    from sentbed_report.write_report import write_report as write

    try:
        # A resumed run has its earlier scores from its checkpoint, without items.
        data = attrs.evolve(data, scores=attach_items(run.directory, data.scores))
    except RunError as error:
        data = attrs.evolve(data, warnings=(*data.warnings, str(error)))
    summaries = run_summaries(data)
    page = write(run.directory, data, summaries=summaries)
    write_tables(run.directory, summaries)
    return page
