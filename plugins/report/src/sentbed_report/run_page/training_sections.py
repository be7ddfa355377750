"""Training of a run: its stages, what was watched, and figures of both."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed.helpers import score_digits
from sentbed.protocols import StageCurve

from sentbed_report.figures.loss import loss_plot
from sentbed_report.figures.loss_metrics import metrics_plot
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.trajectories import TrajectoryPanel, trajectory_panels, trajectory_plot
from sentbed_report.figures.validation import validation_plot
from sentbed_report.figures.watched_scores import score_plots
from sentbed_report.formatting import count, number
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Table


def training_section(stages: Sequence[StageCurve]) -> Section | None:
    """Return the section; None of a run without stages."""
    if not stages:
        return None
    plots: list[Plot] = []
    tables = [_stages(stages)]
    if any(stage.watched for stage in stages):
        tables.append(_watched(stages))
    for place, stage in enumerate(stages):
        panels = trajectory_panels(stage.watched)
        plots += _plots(stage, panels, str(place))
        tables += [_steps(panel) for panel in panels]
    return Section("Training", count(len(stages), "stage"), tables=tables, plots=plots)


def _plots(stage: StageCurve, panels: Sequence[TrajectoryPanel], name: str) -> list[Plot]:
    plots = [
        loss_plot(stage, f"l{name}"),
        validation_plot(stage, f"v{name}"),
        *(trajectory_plot(panel, f"t{name}-{place}") for place, panel in enumerate(panels)),
        *score_plots(stage.watched, f"w{name}"),
        metrics_plot(stage, f"m{name}"),
    ]
    return [plot for plot in plots if plot is not None]


def _stages(stages: Sequence[StageCurve]) -> Table:
    columns = (
        Column("steps", form="count"),
        Column("last loss", digits=4),
        "validation",
        "best",
    )
    rows = []
    for stage in stages:
        step = stage.steps[-1] if len(stage.steps) else None
        loss = stage.losses[-1] if len(stage.losses) else None
        metric = stage.metric if len(stage.validations) else None
        rows.append((stage.name, step, loss, metric, _best(stage)))
    return table_of("", ["stage"], columns, rows)


def _best(stage: StageCurve) -> str | None:
    if stage.best_step is None:
        return None
    value = dict(stage.validations).get(stage.best_step)
    step = f"step {stage.best_step:,}"
    return step if value is None else f"{number(value)} at {step}"


def _watched(stages: Sequence[StageCurve]) -> Table:
    """Return a table of the first and the last evaluation; `report.json` has all."""
    headers = ("stage", "encoder", "evaluator", "task", "metric", "protocol", "steps")
    rows = []
    for stage in stages:
        for watched in stage.watched:
            steps = f"{watched.steps[0]:,} to {watched.steps[-1]:,}"
            for place, score in enumerate(watched.scores):
                values = [of_step[place] for of_step in watched.values]
                digits = score_digits(values)
                of_score = (score.task, score.metric, score.protocol_name, steps)
                ends = (number(values[0], digits), number(values[-1], digits))
                rows.append((stage.name, watched.encoder, watched.evaluator, *of_score, *ends))
    return table_of("Watched", headers, ["first", "last"], rows)


def _steps(panel: TrajectoryPanel) -> Table:
    """Return the positions of encoders in a plane, step by step."""
    columns = []
    for line in panel.lines:
        columns += [
            Column(f"{line.encoder} {panel.plane.y}", digits=3),
            Column(f"{line.encoder} {panel.plane.x}", digits=3),
        ]
    rows = []
    for step, places in panel.rows:
        row: list[Value] = [f"{step:,}"]
        for place in places:
            row += [None, None] if place is None else [place.y, place.x]
        rows.append(row)
    return table_of(f"{panel.plane.title} by step: {panel.title}", ["step"], columns, rows)
