"""Figures of cells during training: their trajectories in planes of two watched scores.

Watched scores are those of a stage's `watch` evaluations, which are made during training and choose no weights.
"""

from __future__ import annotations

import attrs

from sentbed_report.figures.cell_scores import (
    mean_over_runs,
    names_of_encoders,
    sentence_on_mean,
    stages,
)
from sentbed_report.figures.cell_styles import best_cells, sentence_on_missing
from sentbed_report.figures.colours import SERIES
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.trajectories import trajectory_plot, watched_scores
from sentbed_report.score_planes import PlaneScore, ScorePlane, score_planes
from sentbed_report.study.study_data import StudyData


def trajectory_plots(data: StudyData) -> list[Plot]:
    """Draw one plot per plane of two watched scores. Each line is the mean of a cell's runs at each step."""
    scores: list[PlaneScore] = []
    for run, stage in stages(data):
        scores += watched_scores(
            stage.watched, stage.name, run.cell, run.prompt, run.seed
        )

    plots = []
    for plane in score_planes(scores):
        plot = _plot(data, plane)
        if plot is not None:
            plots.append(plot)
    return plots


def _plot(data: StudyData, plane: ScorePlane) -> Plot | None:
    means = mean_over_runs(plane.points, ["cell", "encoder"])
    if means.empty:
        return None
    cells = means["cell"].unique()
    lines = len(means[["cell", "encoder"]].drop_duplicates())
    # The cells are few enough for each line to have its own colour.
    limit = max(1, SERIES * len(cells) // lines)
    shown = best_cells(dict.fromkeys(cells, 0.0), data.baseline, limit)
    named = means.assign(encoder=names_of_encoders(means))
    points = named[means["cell"].isin(shown)]

    plot = trajectory_plot(attrs.evolve(plane, points=points))
    captions = [plot.caption, sentence_on_mean(plane.points)]
    if len(shown) < len(cells):
        captions.append(
            f"Of {len(cells):,} cells {len(shown)} are drawn: the baseline and the first ones."
        )
    captions.append(sentence_on_missing(data, cells, "watched scores"))
    title = plot.title
    if plane.stage:
        title = f"Training in stage {plane.stage}: {title}"
    return attrs.evolve(plot, title=title, caption=captions)
