"""Learning curves of a study: the validations of each stage, a line a cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from sentbed_report.figures.axis_formats import step_axis
from sentbed_report.figures.cell_scores import is_number, mean_over_seeds, stages
from sentbed_report.figures.cell_styles import (
    best_cells,
    line_style,
    sentence_on_choice,
    sentence_on_missing,
)
from sentbed_report.figures.curves import thinned
from sentbed_report.figures.labels import label_text, line_legend, primary_score, short_name
from sentbed_report.figures.plot import Plot
from sentbed_report.study.study_data import StudyData

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@attrs.frozen
class _Panel:
    """Validations of one stage by one metric."""

    stage: str
    metric: str


def learning_curves(data: StudyData, name: str) -> tuple[Plot, ...]:
    """Draw the validations of each stage, one line a cell: the mean over its seeds."""
    panels: dict[_Panel, dict[str, list[pandas.DataFrame]]] = {}
    for cell, stage in stages(data):
        curve = _curve(stage.get("validations"))
        if not curve.empty:
            panel = _Panel(str(stage.get("name", "")), str(stage.get("metric", "validation")))
            panels.setdefault(panel, {}).setdefault(cell.name, []).append(curve)
    plots = []
    for index, (panel, curves) in enumerate(panels.items()):
        plot = _plot(data, panel, curves, f"{name}{index}")
        if plot is not None:
            plots.append(plot)
    return tuple(plots)


def _curve(validations: object) -> pandas.DataFrame:
    """Return the score of each step, of a curve that a program may have written otherwise."""
    import pandas

    scores = {}
    if isinstance(validations, Sequence) and not isinstance(validations, str):
        for row in validations:
            if isinstance(row, Sequence) and len(row) == 2 and all(map(is_number, row)):
                scores[float(row[0])] = float(row[1])
    return pandas.DataFrame({"score": pandas.Series(scores, dtype=float)})


def _plot(
    data: StudyData,
    panel: _Panel,
    curves: Mapping[str, Sequence[pandas.DataFrame]],
    name: str,
) -> Plot | None:
    means = {}
    for cell, of_seeds in curves.items():
        mean = mean_over_seeds(of_seeds)
        if not mean.empty:
            means[cell] = mean
    if not means:
        return None
    highest = {cell: float(mean["score"].max()) for cell, mean in means.items()}
    cells = best_cells(highest, data.baseline)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for index, cell in enumerate(cells):
            points = thinned(means[cell].reset_index().to_numpy())
            style = line_style(index)
            axes.plot(
                *points.T,
                color=style.colour,
                linestyle=style.dashes,
                linewidth=2.4 if cell == data.baseline else 1.4,
                marker="o" if len(points) == 1 else "",
                label=short_name(cell),
            )
        axes.set_ylabel(label_text(primary_score(panel.metric)))
        axes.margins(y=0.08)
        step_axis(axes)
        line_legend(figure, axes, 2)

    captions = []
    if any(len(of_seeds) > 1 for of_seeds in curves.values()):
        captions.append("Mean over the seeds, at the steps that all of them reached.")
    if data.baseline in cells:
        captions.append("Thick: the baseline.")
    captions.append(sentence_on_choice(len(cells), len(means), "validation score"))
    captions.append(sentence_on_missing(data, means, "validations"))
    return Plot(
        name,
        f"Validation in stage {panel.stage}" if panel.stage else "Validation",
        " ".join(filter(None, captions)),
        270 + 17 * math.ceil(len(cells) / 2),
        paint,
    )
