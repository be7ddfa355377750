"""Planes of two scores, such as alignment over uniformity (Wang & Isola, 2020), with the encoders in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import START, Score, StageCurve

from sentbed_report.figures.means import mean_over_runs, names_of_encoders
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.scatter import scatter_plot
from sentbed_report.figures.training_curves import RunStage
from sentbed_report.study.study_data import StudyData

if TYPE_CHECKING:
    import pandas

_PLANE = ["stage", "protocol", "task", "evaluator", "metric_x", "metric_y"]
_POSITION = ["stage", "protocol", "task", "evaluator", "cell", "encoder", "run", "step"]


@attrs.frozen
class PlacedScore:
    """A score with the cell, run, stage and step at which it was measured."""

    cell: str
    run: str
    step: int
    score: Score
    stage: str = ""


def scores_of_run(
    cell: str,
    run: str,
    scores: Iterable[Score],
) -> Iterator[PlacedScore]:
    """Yield the scores of a run: step 0 is before training, step 1 after training."""
    for score in scores:
        name = score.encoder.removesuffix(START)
        step = 1
        if name != score.encoder:
            step = 0
        yield PlacedScore(cell, run, step, attrs.evolve(score, encoder=name))


def watched_scores(stages: Iterable[RunStage]) -> Iterator[PlacedScore]:
    """Yield the scores that stages watched during training, at every step."""
    for of_run in stages:
        yield from _watched(of_run.cell, of_run.run, of_run.stage)


def _watched(
    cell: str,
    run: str,
    stage: StageCurve,
) -> Iterator[PlacedScore]:
    for watched in stage.watched:
        for step, values in zip(watched.steps, watched.values, strict=True):
            for score, value in zip(watched.scores, values, strict=True):
                at_step = attrs.evolve(score, value=value, encoder=watched.encoder)
                yield PlacedScore(cell, run, step, at_step, stage.name)


def geometry_plots(
    scores: Iterable[PlacedScore],
    shades: pandas.DataFrame | None = None,
    shade: str = "",
) -> list[Plot]:
    """Draw one plot per plane in which scores with the axis `x` are paired with scores with the axis `y`.

    Each point is the mean over a cell's runs. `shades` has the columns `cell` and `shade`: the score in the task
    `shade`, which gives the points their colours.
    """
    import pandas

    rows = []
    for placed in scores:
        if placed.score.axis in ("x", "y") and math.isfinite(placed.score.value):
            rows.append(_row(placed))
    if not rows:
        return []

    frame = pandas.DataFrame(rows)
    x = frame[frame["axis"] == "x"]
    y = frame[frame["axis"] == "y"]
    pairs = x.merge(y, on=_POSITION, suffixes=("_x", "_y"))
    pairs = pairs.rename(columns={"value_x": "x", "value_y": "y"})
    plots = []
    for _, plane in pairs.groupby(_PLANE, sort=False):
        first = plane.iloc[0]
        points = mean_over_runs(plane, ["cell", "encoder"], ["x", "y"])
        points["name"] = names_of_encoders(points)

        shade_of_plane = ""
        if shades is not None and not shades.empty:
            points = points.merge(shades, how="left", on="cell")
            shade_of_plane = shade
        plots.append(_plot(first, points, shade_of_plane))
    return plots


def shades_of_cells(data: StudyData) -> pandas.DataFrame:
    """Return the mean score of each cell in the task `StudyData.colour`: columns `cell` and `shade`."""
    import pandas

    rows = []
    for run in data.finished_runs:
        for score in run.scores:
            if score.task == data.colour and not score.axis:
                rows.append((run.cell, score.value))
                break
    scores = pandas.DataFrame(rows, columns=["cell", "shade"])
    return scores.groupby("cell", as_index=False).mean()


def _row(placed: PlacedScore) -> dict[str, object]:
    score = placed.score
    return {
        "stage": placed.stage,
        "protocol": score.protocol_id,
        "task": score.task,
        "evaluator": score.evaluator,
        "cell": placed.cell,
        "encoder": score.encoder,
        "run": placed.run,
        "step": placed.step,
        "axis": score.axis,
        "metric": score.metric,
        "direction": score.direction,
        "value": score.value,
    }


def _plot(
    first: pandas.Series,
    points: pandas.DataFrame,
    shade: str,
) -> Plot:
    """Draw the points of a plane, of which `first` is a row with its names."""
    metrics = f"{first['metric_y'].capitalize()} and {first['metric_x']}"
    title = f"{metrics}: {first['protocol']}, {first['task']}, {first['evaluator']}"
    if first["stage"]:
        title += f", during the stage {first['stage']}"
    labels = (
        f"{first['task']} ({first['metric_x']})",
        f"{first['task']} ({first['metric_y']})",
    )
    captions = []
    for axis in "xy":
        direction = first[f"direction_{axis}"]
        if direction != "none":
            captions.append(f"{first[f'metric_{axis}']}: {direction} is better.")
    return scatter_plot(title, labels, points, " ".join(captions), shade)
