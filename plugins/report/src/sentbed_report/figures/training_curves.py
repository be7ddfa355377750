"""Curves of a training: validations, losses, and the scores that stages watched, over the steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed.protocols import StageCurve, Watched
from sentbed.tools import from_plain

from sentbed_report.figures.lines import line_plot
from sentbed_report.figures.means import mean_over_runs, names_of_encoders
from sentbed_report.figures.plot import Plot
from sentbed_report.study.study_data import CellRun, StudyData

if TYPE_CHECKING:
    import pandas

_Point: TypeAlias = tuple[str, str, int, float]
"""Quantity, name of the encoder (empty for a quantity of the stage), step and value."""


@attrs.frozen
class RunStage:
    """Curves of a stage in a run of a cell."""

    cell: str
    run: str
    """Name of the run, which differs between the runs of a cell."""
    stage: StageCurve


def stages(data: StudyData) -> Iterator[tuple[CellRun, StageCurve]]:
    """Yield each run of a study with the curves of each of its stages."""
    for run in data.runs:
        for stage in run.record.get("stages", ()):
            yield run, from_plain(stage, StageCurve)


def stages_of_study(data: StudyData) -> Iterator[RunStage]:
    """Yield the stages of a study's runs."""
    for run, stage in stages(data):
        yield RunStage(run.cell, str(run), stage)


def validation_plots(all_stages: Iterable[RunStage]) -> list[Plot]:
    """Draw the validation scores of each stage; a line is the mean over a cell's runs."""
    rows = []
    for of_run in all_stages:
        quantity = f"validation ({of_run.stage.metric or 'primary score'})"
        for step, score in of_run.stage.validations:
            rows.append((of_run, (quantity, "", step, score)))
    return _plots(rows)


def training_plots(all_stages: Iterable[RunStage]) -> list[Plot]:
    """Draw all curves of each stage; a line is the mean over a cell's runs."""
    all_stages = list(all_stages)
    rows = []
    for of_run in all_stages:
        for point in _points(of_run.stage):
            rows.append((of_run, point))
    return validation_plots(all_stages) + _plots(rows)


def _points(stage: StageCurve) -> Iterator[_Point]:
    """Yield the points of all curves of a stage except validations."""
    curves = {
        "loss": stage.losses,
        **stage.metrics,
        "learning rate": stage.learning_rates,
    }
    for quantity, values in curves.items():
        for step, value in zip(stage.steps, values, strict=False):
            yield quantity, "", step, value
    for watched in stage.watched:
        yield from _watched(watched)


def _watched(watched: Watched) -> Iterator[_Point]:
    """Yield the points of the scores that are no coordinate of a plane; without planes, of the primary score."""
    has_planes = any(score.axis in ("x", "y") for score in watched.scores)
    if not has_planes:
        for step, value in zip(watched.steps, watched.primary, strict=True):
            yield f"{watched.evaluator} (primary score)", watched.encoder, step, value
        return
    for place, score in enumerate(watched.scores):
        if score.axis:
            continue
        quantity = f"{score.task} ({score.metric})"
        for step, values in zip(watched.steps, watched.values, strict=True):
            yield quantity, watched.encoder, step, values[place]


def _plots(rows: Iterable[tuple[RunStage, _Point]]) -> list[Plot]:
    """Draw one plot per stage and quantity, with a line per cell and encoder."""
    import pandas

    finite = []
    for of_run, (quantity, encoder, step, value) in rows:
        if not math.isfinite(value):
            continue
        point = {
            "stage": of_run.stage.name,
            "quantity": quantity,
            "cell": of_run.cell,
            "encoder": encoder,
            "run": of_run.run,
            "step": step,
            "value": value,
        }
        finite.append(point)
    if not finite:
        return []

    points = pandas.DataFrame(finite)
    plots = []
    for (stage, quantity), of_plot in points.groupby(["stage", "quantity"], sort=False):
        title = f"{quantity[:1].upper()}{quantity[1:]}"
        if stage:
            title += f" in the stage {stage}"
        plots.append(_plot(title, str(quantity), of_plot))
    return plots


def _plot(title: str, quantity: str, points: pandas.DataFrame) -> Plot:
    """Draw the points of one quantity in one stage, with a line per cell and encoder."""
    means = mean_over_runs(points, ["cell", "encoder"], ["value"])
    means = means.rename(columns={"step": "x", "value": "y"})
    means["name"] = means["cell"]
    if means["encoder"].any():
        means["name"] = names_of_encoders(means)

    caption = ""
    if points["run"].nunique() > means["cell"].nunique():
        caption = "Mean over the runs of a cell."
    return line_plot(title, ("step", quantity), means, caption)
