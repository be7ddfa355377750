"""Scores of the demonstrations that the searches of a study's cells have tried."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING

import attrs

from sentbed_report.figures.axis_formats import name_rows
from sentbed_report.figures.cell_styles import best_cells, sentence_on_choice, sentence_on_missing
from sentbed_report.figures.colours import colour, series_colour
from sentbed_report.figures.labels import label_text, primary_score
from sentbed_report.figures.plot import Plot
from sentbed_report.study.found_demonstrations import search_of
from sentbed_report.study.study_data import StudyData

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@attrs.define
class _Candidates:
    """Scores of a cell's searches, one a seed."""

    scores: list[float] = attrs.field(factory=list)
    """Of every candidate."""
    baselines: list[float] = attrs.field(factory=list)
    """Without a demonstration."""


def ranking_plot(data: StudyData, name: str) -> Plot | None:
    """Draw how the scores of demonstrations are distributed, one row a cell: every seed's candidates."""
    candidates: dict[str, _Candidates] = {}
    evaluators: dict[str, None] = {}
    for cell in data.cells:
        for run in cell.runs:
            search = search_of(run)
            if search is None:
                continue
            of_cell = candidates.setdefault(cell.name, _Candidates())
            of_cell.scores += search.scores
            if search.baseline is not None:
                of_cell.baselines.append(search.baseline)
            if search.evaluator:
                evaluators[search.evaluator] = None
    if not candidates:
        return None
    cells = best_cells({cell: max(of_cell.scores) for cell, of_cell in candidates.items()}, data.baseline)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for row, cell in enumerate(cells):
            _draw_row(axes, row, candidates[cell])
        name_rows(axes, cells)
        axes.set_xlabel(label_text(primary_score(", ".join(evaluators))))

    captions = [
        "A dot a candidate, grey where it harms; bar: their median; dotted: without a demonstration.",
        sentence_on_choice(len(cells), len(candidates), "score of a candidate"),
        sentence_on_missing(data, candidates, "a search"),
    ]
    return Plot(
        name,
        "Scores of demonstrations",
        " ".join(filter(None, captions)),
        90 + 32 * len(cells),
        paint,
    )


def _draw_row(axes: Axes, row: int, candidates: _Candidates) -> None:
    import numpy as np

    scores = np.array(candidates.scores)
    # Spread a little, by position: the same picture every time.
    heights = row + 0.22 * np.sin(2.4 * np.arange(len(scores)))
    harmful = np.zeros(len(scores), bool)
    if candidates.baselines:
        baseline = fmean(candidates.baselines)
        harmful = scores < baseline
        axes.vlines(baseline, row - 0.34, row + 0.34, color=colour("fg"), linewidth=1.4, linestyle="dotted")
    for tone, part in ((series_colour(row), ~harmful), (colour("muted"), harmful)):
        axes.plot(scores[part], heights[part], "o", color=tone, markersize=3, alpha=0.45, markeredgewidth=0)
    axes.plot(
        median(candidates.scores),
        row,
        "|",
        color=colour("fg"),
        markersize=20,
        markeredgewidth=1.8,
        label="median",
    )
