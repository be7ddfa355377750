"""Curves of a training: validations, losses, and the scores that stages watched, over the steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import attrs
from sentbed.protocols import StageCurve
from sentbed.tools import from_plain

from sentbed_report.figures.lines import line_plot
from sentbed_report.figures.means import mean_over_runs, names_of_encoders
from sentbed_report.figures.plot import Plot
from sentbed_report.study.study_data import StudyData

_Curve: TypeAlias = tuple[str, str, Iterable[int], Sequence[float]]
"""Quantity, name of the encoder (empty for a quantity of the stage), steps and values."""


@attrs.frozen
class RunStage:
    """Curves of a stage in a run of a cell."""

    cell: str
    run: str
    """Name of the run, which differs between the runs of a cell."""
    stage: StageCurve


def stages_of_study(data: StudyData) -> Iterator[RunStage]:
    """Yield the stages of a study's runs."""
    for run in data.runs:
        for stage in run.record.get("stages", ()):
            yield RunStage(run.cell, str(run), from_plain(stage, StageCurve))


def training_plots(
    all_stages: Iterable[RunStage], only_validations: bool = False
) -> list[Plot]:
    """Draw the curves of each stage, one plot per quantity; a line is the mean over a cell's runs."""
    import pandas

    rows = []
    for of_run in all_stages:
        curves = list(_validations(of_run.stage))
        if not only_validations:
            curves += _curves(of_run.stage)
        for quantity, encoder, steps, values in curves:
            labels = (of_run.stage.name, quantity, of_run.cell, encoder, of_run.run)
            for step, value in zip(steps, values, strict=False):
                if math.isfinite(value):
                    rows.append((*labels, step, value))

    names = ["stage", "quantity", "cell", "encoder", "run", "step", "value"]
    points = pandas.DataFrame(rows, columns=names)
    plots = []
    for (stage, quantity), of_plot in points.groupby(["stage", "quantity"], sort=False):
        title = f"{quantity[:1].upper()}{quantity[1:]}"
        if stage:
            title += f" in the stage {stage}"
        means = mean_over_runs(of_plot, ["cell", "encoder"], ["value"])
        means["name"] = names_of_encoders(means)
        means = means.rename(columns={"step": "x", "value": "y"})
        plots.append(line_plot(title, ("step", str(quantity)), means))
    return plots


def _validations(stage: StageCurve) -> Iterator[_Curve]:
    if stage.validations:
        steps, scores = zip(*stage.validations, strict=True)
        yield f"validation ({stage.metric})", "", steps, scores


def _curves(stage: StageCurve) -> Iterator[_Curve]:
    """Yield all curves of a stage except validations."""
    yield "loss", "", stage.steps, stage.losses
    for name, values in stage.metrics.items():
        yield name, "", stage.steps, values
    yield "learning rate", "", stage.steps, stage.learning_rates
    for watched in stage.watched:
        quantity = f"{watched.evaluator} (primary score)"
        yield quantity, watched.encoder, watched.steps, watched.primary
