"""Learning curves of a study: figures of the validation scores of each stage."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sentbed_report.figures.cell_scores import (
    mean_over_runs,
    sentence_on_mean,
    stages,
)
from sentbed_report.figures.cell_styles import (
    best_cells,
    sentence_on_choice,
    sentence_on_missing,
)
from sentbed_report.figures.curves import curves_plot
from sentbed_report.figures.labels import primary_score
from sentbed_report.figures.plot import Plot
from sentbed_report.study.study_data import StudyData

if TYPE_CHECKING:
    import pandas


def learning_curves(data: StudyData) -> list[Plot]:
    """Draw one plot per stage and metric: validation scores over steps, with one line per cell.

    A line is the mean over the cell's prompts and seeds.
    """
    import pandas

    rows = []
    for run, stage in stages(data):
        of_run = (stage.name, stage.metric, run.cell, run.prompt, run.seed)
        for step, score in stage.validations:
            if math.isfinite(score):
                rows.append((*of_run, step, score))

    columns = ["stage", "metric", "cell", "prompt", "seed", "step", "score"]
    curves = pandas.DataFrame(rows, columns=columns)
    plots = []
    for (stage_name, metric), of_stage in curves.groupby(
        ["stage", "metric"], sort=False
    ):
        title = f"Validation in stage {stage_name}" if stage_name else "Validation"
        plot = _plot(data, of_stage, title, primary_score(metric))
        if plot is not None:
            plots.append(plot)
    return plots


def _plot(
    data: StudyData,
    curves: pandas.DataFrame,
    title: str,
    axis: str,
) -> Plot | None:
    means = mean_over_runs(curves, ["cell"])
    if means.empty:
        return None

    of_cells = means.groupby("cell", sort=False)
    cells = best_cells(of_cells["score"].max().to_dict(), data.baseline)
    captions = [sentence_on_mean(curves)]
    if data.baseline in cells:
        captions.append("Thick: the baseline.")
    captions.append(sentence_on_choice(len(cells), len(of_cells)))
    captions.append(sentence_on_missing(data, set(means["cell"]), "validations"))

    points = {}
    for cell in cells:
        points[cell] = of_cells.get_group(cell)[["step", "score"]].to_numpy()
    return curves_plot(title, captions, axis, points, data.baseline)
