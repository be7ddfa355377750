"""Figures of a study's cells in planes of two scores, such as alignment and uniformity."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sentbed_report.figures.cell_scores import (
    mean_over_runs,
    names_of_encoders,
    scores_after_training,
)
from sentbed_report.figures.cell_styles import (
    MOST_LINES,
    CellMarkers,
    sentence_on_missing,
)
from sentbed_report.figures.labels import label_text
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.trajectories import label_plane
from sentbed_report.formatting import count
from sentbed_report.score_planes import PlaneScore, ScorePlane, score_planes
from sentbed_report.study.study_data import StudyData

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


def geometry_plots(data: StudyData) -> list[Plot]:
    """Draw one plot per plane of two scores. Each point is the mean of a cell's runs, over prompts and seeds."""
    scores = []
    for cell, run, score in scores_after_training(data):
        scores.append(
            PlaneScore(
                score,
                cell=cell.name,
                prompt=run.prompt,
                seed=run.seed,
            )
        )
    shades = _scores_of_task(data, data.colour)

    plots = []
    for plane in score_planes(scores):
        means = mean_over_runs(plane.points, ["cell", "encoder"])
        points = means.merge(shades, how="left")
        points["name"] = names_of_encoders(points)
        plots.append(_plot(data, plane, points))
    return plots


def _scores_of_task(data: StudyData, task: str) -> pandas.DataFrame:
    """Return the scores in a task that give points their colours: columns `cell`, `encoder` and `shade`.

    `shade` is the score in the task's first metric, averaged over prompts and seeds.
    """
    import numpy as np
    import pandas

    rows = []
    for cell, run, score in scores_after_training(data):
        if score.task == task and not score.axis:
            rows.append((cell.name, score.encoder, run.prompt, run.seed, score.value))
    scores = pandas.DataFrame(
        rows, columns=["cell", "encoder", "prompt", "seed", "shade"]
    )
    first = scores.drop_duplicates(["cell", "encoder", "prompt", "seed"])
    finite = first[np.isfinite(first["shade"].astype(float))]
    return finite.groupby(["cell", "encoder"])["shade"].mean().reset_index()


def _plot(
    data: StudyData,
    plane: ScorePlane,
    points: pandas.DataFrame,
) -> Plot:
    markers = CellMarkers(data)
    named = len(points) <= MOST_LINES
    height, alpha = (320, 1.0) if named else (380, 0.75)
    coloured = points["shade"].nunique() > 1

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.margins(0.15)
        label_plane(axes, plane)
        drawn = points.assign(alpha=alpha)
        if named:
            drawn["text"] = points["name"]
        if coloured:
            drawn["tone"] = _draw_colourbar(figure, points["shade"], data.colour)
        markers.draw(axes, drawn)
        if not named:
            markers.draw_legend(figure, 3)

    over = "prompts and seeds" if data.prompts else "seeds"
    captions = [
        plane.better,
        f"{count(len(points), 'point')}, each a cell's mean over {over}.",
        markers.sentences(points),
    ]
    if coloured:
        captions.append(f"Colour: the score of {data.colour}.")
    if not named:
        captions.append(f"Points have names if there are at most {MOST_LINES}.")
    captions.append(sentence_on_missing(data, set(points["cell"]), "scores"))
    return Plot(plane.title, captions, height, paint)


def _draw_colourbar(
    figure: Figure,
    scores: pandas.Series,
    task: str,
) -> list[str]:
    """Draw a colour bar for a task's scores, and return the colour of each score; empty if it is missing."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_hex

    # Only 24 colours, since each colour of the bar is an element of the page.
    scale = ScalarMappable(
        Normalize(scores.min(), scores.max()), colormaps["viridis"].resampled(24)
    )
    bar = figure.colorbar(
        scale,
        ax=figure.axes[0],
        label=label_text(task),
        use_gridspec=False,
    )
    bar.outline.set_visible(False)

    tones = []
    for score in scores:
        # Since pandas 3, a column of texts has NaN in place of None, which is no colour.
        tone = ""
        if not math.isnan(score):
            tone = to_hex(tuple(scale.to_rgba(score)))
        tones.append(tone)
    return tones
