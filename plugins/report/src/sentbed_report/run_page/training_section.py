"""Section on the training of a run: a table of its stages, and figures of what was logged."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed.protocols import StageCurve

from sentbed_report.figures.geometry import geometry_plots, watched_scores
from sentbed_report.figures.training_curves import RunStage, training_plots
from sentbed_report.formatting import count
from sentbed_report.page.sections import Section, table_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Table


def training_section(stages: Sequence[StageCurve]) -> Section | None:
    """Return the section; None if the run has no stages."""
    if not stages:
        return None
    of_run = [RunStage("", "", stage) for stage in stages]
    plots = training_plots(of_run) + geometry_plots(watched_scores(of_run))
    summary = count(len(stages), "stage")
    return Section("Training", summary, tables=[_stages(stages)], plots=plots)


def _stages(stages: Sequence[StageCurve]) -> Table:
    rows = []
    for stage in stages:
        steps = loss = None
        if len(stage.steps):
            steps = stage.steps[-1]
            loss = stage.losses[-1]
        validation = None
        if stage.best_step is not None:
            validation = dict(stage.validations).get(stage.best_step)
        rows.append(
            (stage.name, steps, loss, stage.best_step, validation, stage.metric)
        )
    columns = (
        Column("steps", form="count"),
        Column("last loss", digits=4),
        Column("kept step", form="count"),
        Column("validation of the kept step"),
        "metric",
    )
    return table_of("", ["stage"], columns, rows)
