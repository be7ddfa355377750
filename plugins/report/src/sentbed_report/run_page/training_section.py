"""Section on the training of a run: its stages and watched evaluations, as tables and figures."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed.helpers import score_digits
from sentbed.protocols import StageCurve

from sentbed_report.figures.geometry import geometry_plots, watched_scores
from sentbed_report.figures.training_curves import RunStage, training_plots
from sentbed_report.formatting import count, number
from sentbed_report.page.sections import Section, table_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Table


def training_section(stages: Sequence[StageCurve]) -> Section | None:
    """Return the section; None if the run has no stages."""
    if not stages:
        return None
    tables = [_stages(stages)]
    if any(stage.watched for stage in stages):
        tables.append(_watched(stages))
    of_run = [RunStage("", "", stage) for stage in stages]
    plots = training_plots(of_run) + geometry_plots(watched_scores(of_run))
    return Section("Training", count(len(stages), "stage"), tables=tables, plots=plots)


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


def _watched(stages: Sequence[StageCurve]) -> Table:
    """Return a table with the first and the last value of each watched score; `report.json` has all values."""
    rows = []
    for stage in stages:
        for watched in stage.watched:
            steps = f"{watched.steps[0]:,} to {watched.steps[-1]:,}"
            for place, score in enumerate(watched.scores):
                first = watched.values[0][place]
                last = watched.values[-1][place]
                digits = score_digits([first, last])
                rows.append(
                    (
                        stage.name,
                        watched.encoder,
                        watched.evaluator,
                        score.task,
                        score.metric,
                        steps,
                        number(first, digits),
                        number(last, digits),
                    )
                )
    headers = ("stage", "encoder", "evaluator", "task", "metric", "steps")
    return table_of("Watched", headers, ["first", "last"], rows)
