"""Hooks of sentbed-audit: its commands, the table `[clean]`, and the report section of runs with this table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sentbed import hookimpl

if TYPE_CHECKING:
    from sentbed.protocols import ReportData, ReportSection, Run


@hookimpl
def commands() -> Mapping[str, str]:
    """Return the commands."""
    return {
        "audit": "sentbed_audit.audit_command:audit",
        "overlap": "sentbed_audit.overlap_command:overlap",
    }


@hookimpl
def recipe_tables() -> Mapping[str, str]:
    """Return `[clean]`."""
    return {"clean": "sentbed_audit.clean.clean_config:Clean"}


@hookimpl
def report_sections(run: Run, data: ReportData) -> Sequence[ReportSection]:
    """Return a section with the scores on clean items, if the recipe of a run has `[clean]`."""
    from sentbed_audit.clean.clean_config import Clean

    table = run.recipe.table(Clean)
    if table is None or not data.scores:
        return ()

    from sentbed_report.score_items import attach_items

    from sentbed_audit.clean.clean_section import clean_section
    from sentbed_audit.clean.overlap import Overlap
    from sentbed_audit.clean.training_texts import training_sources

    evaluators = [entry.evaluator for entry in run.recipe.evaluate]
    overlap = Overlap(evaluators, training_sources(run.recipe))
    # Scores from before a resumption come from the run's state, which has no items.
    scores = attach_items(run.directory, data.scores)
    return [clean_section(overlap, scores)]
