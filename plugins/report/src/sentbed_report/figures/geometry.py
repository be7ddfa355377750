"""Planes of two scores, such as alignment over uniformity (Wang & Isola, 2020), with the encoders in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import START, Score

from sentbed_report.figures.means import mean_over_runs, names_of_encoders
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.scatter import scatter_plot
from sentbed_report.figures.training_curves import RunStage
from sentbed_report.study.study_data import StudyData

if TYPE_CHECKING:
    import pandas

_PLANE = ["stage", "protocol", "task", "evaluator", "label_x", "label_y"]
_POINT = ["stage", "protocol", "task", "evaluator", "cell", "encoder", "run", "step"]


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
        step = int(name == score.encoder)
        yield PlacedScore(cell, run, step, attrs.evolve(score, encoder=name))


def scores_of_study(data: StudyData) -> Iterator[PlacedScore]:
    """Yield the scores of all runs of a study."""
    for run in data.runs:
        yield from scores_of_run(run.cell, str(run), run.scores)


def watched_scores(stages: Iterable[RunStage]) -> Iterator[PlacedScore]:
    """Yield the scores that stages watched during training, at every step."""
    for of_run in stages:
        for watched in of_run.stage.watched:
            for step, values in zip(watched.steps, watched.values, strict=True):
                for score, value in zip(watched.scores, values, strict=True):
                    yield PlacedScore(
                        of_run.cell,
                        of_run.run,
                        step,
                        attrs.evolve(score, value=value, encoder=watched.encoder),
                        of_run.stage.name,
                    )


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
    pairs = x.merge(y, on=_POINT, suffixes=("_x", "_y"))
    plots = []
    for plane, points in pairs.groupby(_PLANE, sort=False):
        stage, protocol, task, evaluator, *labels = plane
        means = mean_over_runs(points, ["cell", "encoder"], ["value_x", "value_y"])
        means = means.rename(columns={"value_x": "x", "value_y": "y"})
        means["name"] = names_of_encoders(means)
        if shades is not None:
            means = means.merge(shades, how="left", on="cell")
        title = f"{protocol}, {task}, {evaluator}"
        if stage:
            title += f", during the stage {stage}"
        plots.append(scatter_plot(title, (labels[0], labels[1]), means, shade))
    return plots


def shades_of_cells(data: StudyData) -> pandas.DataFrame | None:
    """Return the mean score of each cell in the task `StudyData.colour`: columns `cell` and `shade`; or None."""
    import pandas

    rows = []
    for run in data.finished_runs:
        for score in run.scores:
            if score.task == data.colour and not score.axis:
                rows.append((run.cell, score.value))
                break
    if not rows:
        return None
    scores = pandas.DataFrame(rows, columns=["cell", "shade"])
    return scores.groupby("cell", as_index=False).mean()


def _row(placed: PlacedScore) -> dict[str, object]:
    score = placed.score
    label = f"{score.task} ({score.metric})"
    if score.direction != "none":
        label += f", {score.direction} is better"
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
        "label": label,
        "value": score.value,
    }
