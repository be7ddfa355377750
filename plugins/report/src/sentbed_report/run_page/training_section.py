"""Section on the training of a run: its stages and watched evaluations, as tables and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sentbed.helpers import score_digits
from sentbed.protocols import StageCurve

from sentbed_report.figures.plot import Plot
from sentbed_report.figures.stage_curves import (
    loss_plot,
    metrics_plots,
    score_plots,
    validation_plot,
)
from sentbed_report.figures.trajectories import trajectory_plot, watched_planes
from sentbed_report.formatting import count, number
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.score_planes import ScorePlane
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Table


def training_section(stages: Sequence[StageCurve]) -> Section | None:
    """Return the section; None if the run has no stages."""
    if not stages:
        return None

    plots: list[Plot] = []
    tables = [_stages(stages)]
    if any(stage.watched for stage in stages):
        tables.append(_watched(stages))
    for stage in stages:
        planes = watched_planes(stage.watched)
        plots += _plots(stage, planes)
        tables += map(_steps, planes)
    return Section("Training", count(len(stages), "stage"), tables=tables, plots=plots)


def _plots(stage: StageCurve, planes: Sequence[ScorePlane]) -> list[Plot]:
    plots = [
        loss_plot(stage),
        validation_plot(stage),
        *map(trajectory_plot, planes),
        *score_plots(stage.watched),
        *metrics_plots(stage),
    ]
    return [plot for plot in plots if plot is not None]


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


def _steps(plane: ScorePlane) -> Table:
    """Return a table with the position of each encoder in a plane, one row per step."""
    places = plane.points.pivot(
        index="step",
        columns="encoder",
        values=["y", "x"],
    )
    columns = []
    shown = []
    for encoder in plane.points["encoder"].unique():
        columns += [
            Column(f"{encoder} {plane.y}", digits=3),
            Column(f"{encoder} {plane.x}", digits=3),
        ]
        shown += [("y", encoder), ("x", encoder)]

    rows = []
    for step, positions in places[shown].iterrows():
        row: list[Value] = [f"{step:,}"]
        for value in positions:
            number = None if math.isnan(value) else float(value)
            row.append(number)
        rows.append(row)
    return table_of(f"{plane.metrics} by step: {plane.title}", ["step"], columns, rows)
