"""Cells of a study in planes of two scores."""

from __future__ import annotations

import re
from statistics import fmean

import attrs
import pytest
from drawn_figures import axis_labels, hollow_points, named_lines
from sentbed_report.figures.cell_planes import geometry_plots
from sentbed_report.figures.colours import theme_colours
from toy_study import study, with_scores


def mean(data, cell, metric):
    runs = next(info.runs for info in data.cells if info.name == cell)
    return fmean(
        score.value for run in runs for score in run.scores if score.metric == metric
    )


def test_a_point_is_the_mean_of_a_cell_over_its_seeds():
    data = study(several=True)
    (plot,) = geometry_plots(data)
    assert axis_labels(plot) == ("STSB (uniformity)", "STSB (alignment)")
    for cell, (point,) in named_lines(plot).items():
        assert point == pytest.approx(
            (mean(data, cell, "uniformity"), mean(data, cell, "alignment"))
        )

    assert hollow_points(plot) == []


def test_points_are_coloured_by_the_score_of_a_task():
    data = study(several=True)
    (plain,) = geometry_plots(data)
    # The plane's own scores have the same task.
    (coloured,) = geometry_plots(attrs.evolve(data, colour="STSB"))
    assert coloured.caption == f"{plain.caption} Colour: the score of STSB."
    means = []
    for cell in data.cells:
        scores = [score for run in cell.runs for score in run.scores]
        means.append(
            fmean(
                score.value
                for score in scores
                if (score.task, score.metric) == ("STSB", "spearman")
            )
        )

    # Viridis: the least is its first colour, the greatest its last.
    assert min(means) < max(means)
    fills = re.findall(r"fill: (#[0-9a-f]{6})", coloured.element("f-"))
    assert {"#440154", "#fde725"} <= set(fills)
    assert not {"#440154", "#fde725"} & set(
        re.findall(r"#[0-9a-f]{6}", plain.element("f-"))
    )
    (without,) = geometry_plots(attrs.evolve(data, colour="none"))
    assert without.element("f-") == plain.element("f-")


def test_a_cell_without_a_score_of_the_task_has_the_colour_of_its_labels():
    def measured(run, score):
        is_shade = (run.cell, score.metric) == ("mean, 0.25", "spearman")
        return None if is_shade else score

    data = with_scores(study(several=True, seeds=(1,)), measured)
    (plot,) = geometry_plots(attrs.evolve(data, colour="STSB"))
    points = {
        line.get_label(): line.get_color() for line in plot.figure(6).axes[0].lines
    }
    assert points["mean, 0.25"] == theme_colours("light")["c1"]
