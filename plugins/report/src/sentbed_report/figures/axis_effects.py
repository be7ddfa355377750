"""Figure of axis effects: for each label of each axis, the scores of its cells and their mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed_report.figures.axis_formats import name_rows
from sentbed_report.figures.colours import colour, series_colour
from sentbed_report.figures.drawn_rows import DrawnRows, drawn_rows, score_label
from sentbed_report.figures.labels import label_text
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.points import draw_points
from sentbed_report.study.main_effects import AxisEffect, main_effects
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def effects_plot(data: StudyData, summary: Summary) -> Plot | None:
    """Draw one panel per axis of the study, with the cells and the mean of each label; panels share a scale.

    Return None if no axis has two labels that can be compared.
    """
    effects = [effect for effect in main_effects(data, summary) if effect.compared]
    if not effects:
        return None

    drawn = drawn_rows(data, summary)
    heights = [len(effect.labels) + 0.6 for effect in effects]

    def paint(figure: Figure) -> None:
        grid = figure.subplots(
            len(effects),
            1,
            sharex=True,
            squeeze=False,
            height_ratios=heights,
        )
        parts = grid[:, 0]
        for index, (axes, effect) in enumerate(zip(parts, effects, strict=True)):
            _draw_effect(axes, effect, drawn, series_colour(index))
        parts[-1].set_xlabel(label_text(score_label(summary)))
        figure.align_ylabels()

    captions = [
        "Diamond: the mean of a label, as in the table; dots: its cells.",
        drawn.caption,
    ]
    height = round(70 + 26 * sum(heights))
    return Plot(title_of(summary), captions, height, paint)


def _draw_effect(
    axes: Axes,
    effect: AxisEffect,
    drawn: DrawnRows,
    tone: str,
) -> None:
    """Draw the labels of one axis as rows: a dot for each cell, a diamond for the mean."""
    labels = [label.label for label in effect.labels]

    for rows, hollow, alpha in (
        (drawn.sound, False, 0.35),
        (drawn.degenerate, True, 1),
    ):
        places = [labels.index(row.labels[effect.axis]) for row in rows["row"]]
        draw_points(
            axes,
            rows["value"],
            places,
            tone,
            size=5,
            hollow=hollow,
            alpha=alpha,
        )

    for place, label in enumerate(effect.labels):
        if label.mean is not None:
            draw_points(axes, label.mean, place, tone, effect.axis, marker="D")

    name_rows(axes, labels)
    axes.set_title(
        label_text(effect.axis),
        loc="left",
        fontsize="medium",
        color=colour("muted"),
    )
