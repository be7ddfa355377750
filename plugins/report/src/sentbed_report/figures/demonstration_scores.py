"""Figures of the scores of all demonstrations that a search tried, in one run or in a study's cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING

from sentbed_report.figures.axis_formats import name_rows
from sentbed_report.figures.cell_styles import (
    best_cells,
    sentence_on_choice,
    sentence_on_missing,
)
from sentbed_report.figures.colours import colour, series_colour
from sentbed_report.figures.labels import label_text, primary_score
from sentbed_report.figures.plot import Plot
from sentbed_report.formatting import count, number
from sentbed_report.run_report import Ranking
from sentbed_report.study.found_demonstrations import search_of
from sentbed_report.study.study_data import StudyData

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = "Each dot is a candidate, grey if it harms; bar: the median; dotted: without a demonstration."


def candidates_plot(ranking: Ranking) -> Plot | None:
    """Draw the scores of the candidates of a run's search; None if no score is finite."""
    scores = []
    for candidate in ranking.candidates:
        if math.isfinite(candidate.score):
            scores.append(candidate.score)
    if not scores:
        return None

    numbers = f"Best: {number(scores[0], ranking.digits)}"
    baselines = {}
    if math.isfinite(ranking.baseline.score):
        baselines[""] = [ranking.baseline.score]
        baseline = number(ranking.baseline.score, ranking.digits)
        numbers += f"; without a demonstration: {baseline}"
    captions = [_MARKS, f"{numbers}."]
    missing = len(ranking.candidates) - len(scores)
    if missing:
        captions.append(f"{count(missing, 'score')} not finite, not drawn.")
    return _plot(
        "Scores of the candidates", ranking.evaluator, {"": scores}, baselines, captions
    )


def ranking_plot(data: StudyData) -> Plot | None:
    """Draw the scores of the candidates of all searches in a study, one row per cell; None without a search."""
    scores: dict[str, list[float]] = {}
    baselines: dict[str, list[float]] = {}
    evaluators: dict[str, None] = {}
    for cell in data.cells:
        for run in cell.runs:
            search = search_of(run)
            if search is None:
                continue
            scores.setdefault(cell.name, []).extend(search.scores)
            if search.baseline is not None:
                baselines.setdefault(cell.name, []).append(search.baseline)
            if search.evaluator:
                evaluators[search.evaluator] = None
    if not scores:
        return None

    best_scores = {cell: max(of_cell) for cell, of_cell in scores.items()}
    cells = best_cells(best_scores, data.baseline)
    captions = [
        _MARKS,
        sentence_on_choice(len(cells), len(scores), "score of a candidate"),
        sentence_on_missing(data, scores, "a search"),
    ]
    drawn = {cell: scores[cell] for cell in cells}
    return _plot(
        "Scores of demonstrations", ", ".join(evaluators), drawn, baselines, captions
    )


def _plot(
    title: str,
    evaluator: str,
    scores: Mapping[str, Sequence[float]],
    baselines: Mapping[str, Sequence[float]],
    captions: Sequence[str],
) -> Plot:
    """Draw one row per cell: the scores of its candidates, and its mean score without a demonstration."""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for row, (cell, of_cell) in enumerate(scores.items()):
            _draw_row(axes, row, of_cell, baselines.get(cell))
        name_rows(axes, [*scores])
        axes.set_xlabel(label_text(primary_score(evaluator)))

    return Plot(title, captions, 90 + 32 * len(scores), paint)


def _draw_row(
    axes: Axes,
    row: int,
    of_cell: Sequence[float],
    baselines: Sequence[float] | None,
) -> None:
    import numpy as np

    scores = np.array(of_cell)
    # Heights vary with the position, not at random, so that the figure is reproducible.
    heights = row + 0.22 * np.sin(2.4 * np.arange(len(scores)))
    harmful = np.zeros(len(scores), bool)
    if baselines:
        baseline = fmean(baselines)
        harmful = scores < baseline
        axes.vlines(
            baseline,
            row - 0.34,
            row + 0.34,
            color=colour("fg"),
            linewidth=1.4,
            linestyle="dotted",
        )

    for tone, part in ((series_colour(row), ~harmful), (colour("muted"), harmful)):
        axes.plot(
            scores[part],
            heights[part],
            "o",
            color=tone,
            markersize=3,
            alpha=0.45,
            markeredgewidth=0,
        )

    axes.plot(
        median(of_cell),
        row,
        "|",
        color=colour("fg"),
        markersize=20,
        markeredgewidth=1.8,
        label="median",
    )
