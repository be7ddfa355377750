"""Hooks of sentbed-report: pages and tables of runs, and the tables `[bootstrap]` and `[report]`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed import hookimpl
from sentbed.protocols import LazyCommand, RecipeTable, ReportData

from sentbed_report.recipe_tables import Bootstrap, ReportTable

if TYPE_CHECKING:
    from sentbed.protocols import Run

sentbed_api = "1.0"


@hookimpl
def commands() -> Mapping[str, LazyCommand]:
    """Return `compare` and `table`."""
    return {
        "compare": LazyCommand(
            "sentbed_report.commands:compare", "Compare runs on all scores that they share."
        ),
        "table": LazyCommand("sentbed_report.commands:table", "Print the scores of runs as papers do."),
    }


@hookimpl
def recipe_tables() -> Mapping[str, type[RecipeTable]]:
    """Return `[bootstrap]` and `[report]`."""
    return {"bootstrap": Bootstrap, "report": ReportTable}


@hookimpl
def write_report(run: Run, data: ReportData) -> Path:
    """Write `report.html`, `report.md`, the tables in `tables/`, and into `report.json` what is resampled."""
    from sentbed.helpers import derive

    from sentbed_report.comparability import bootstrapped
    from sentbed_report.run_report import RunReport
    from sentbed_report.table_formats import write_tables
    from sentbed_report.write import write_report as write

    found = RunReport(**{field.name: getattr(data, field.name) for field in attrs.fields(ReportData)})
    if (rule := run.recipe.table(Bootstrap)) is not None:
        seed = derive(run.recipe.run.seed, "bootstrap")
        drawn = bootstrapped(data.scores, rule.resamples, rule.confidence, seed)
        found = attrs.evolve(found, bootstrap=drawn)
    if not (run.recipe.table(ReportTable) or ReportTable()).scatters:
        found = attrs.evolve(found, scatters=())
    page = write(run.directory, found)
    write_tables(run.directory, data.scores)
    return page
