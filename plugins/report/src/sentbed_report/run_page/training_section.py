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
    columns = (
        Column("steps", form="count"),
        Column("last loss", digits=4),
        "validation",
        "kept",
    )
    rows = []
    for stage in stages:
        metric = stage.metric if len(stage.validations) else None
        rows.append(
            (stage.name, _last(stage.steps), _last(stage.losses), metric, _kept(stage))
        )
    return table_of("", ["stage"], columns, rows)


def _last(values: Sequence[float]) -> float | None:
    if not len(values):
        return None
    return values[-1]


def _kept(stage: StageCurve) -> str | None:
    """Return the validation score and the step of the kept weights; only the step if the score is unknown."""
    if stage.best_step is None:
        return None
    value = dict(stage.validations).get(stage.best_step)
    step = f"step {stage.best_step:,}"
    if value is None:
        return step
    return f"{number(value)} at {step}"


def _watched(stages: Sequence[StageCurve]) -> Table:
    """Return a table with the first and the last value of each watched score; `report.json` has all values."""
    headers = ("stage", "encoder", "evaluator", "task", "metric", "protocol", "steps")
    rows = []
    for stage in stages:
        for watched in stage.watched:
            steps = f"{watched.steps[0]:,} to {watched.steps[-1]:,}"
            for place, score in enumerate(watched.scores):
                values = [of_step[place] for of_step in watched.values]
                digits = score_digits(values)
                rows.append(
                    (
                        stage.name,
                        watched.encoder,
                        watched.evaluator,
                        score.task,
                        score.metric,
                        score.protocol_name,
                        steps,
                        number(values[0], digits),
                        number(values[-1], digits),
                    )
                )
    return table_of("Watched", headers, ["first", "last"], rows)
