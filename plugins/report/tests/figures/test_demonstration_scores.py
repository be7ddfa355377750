"""Scores of demonstrations of a study, and of the candidates of a run."""

from __future__ import annotations

import math
from statistics import median

import pytest
from drawn_figures import axis_labels
from sentbed_report.figures.demonstration_scores import candidates_plot, ranking_plot
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from toy_run_report import ranking
from toy_study import study


def first_row(plot):
    """Scores of the dots in the first row, of what helps and of what harms, and the place of their median."""
    helpful, harmful, bar = plot.figure(6).axes[0].lines[:3]
    dots = [float(score) for score in (*helpful.get_xdata(), *harmful.get_xdata())]
    return sorted(dots), [*bar.get_xydata()[0]]


def test_a_row_has_every_candidate_and_their_median():
    data = study(several=True, seeds=(1, 2))
    plot = ranking_plot(data)
    assert plot is not None
    assert axis_labels(plot)[0] == "senteval-sts (primary score)"
    scores = []
    for run in data.cells[0].runs:
        scores += [
            row["score"]
            for row in run.record["ranking"]["rows"]
            if row["rank"] is not None
        ]

    dots, bar = first_row(plot)
    assert dots == pytest.approx(sorted(scores))
    assert bar == pytest.approx([median(scores), 0])


@pytest.mark.parametrize(
    "ranking", [[], {"rows": 3}, {"rows": [{"rank": 1, "score": None}]}], ids=str
)
def test_records_that_hold_something_else_are_left_out(ranking):
    run = CellRun("a", 1, "finished", record={"ranking": ranking})
    assert (
        ranking_plot(StudyData("s", (), (CellInfo("a", {}, (run,)),), None, (1,)))
        is None
    )


@pytest.mark.parametrize(
    ("scores", "baseline", "numbers"),
    [
        (
            (80.0, 80.0, 76.0, 70.0, math.nan),
            72.0,
            "Best: 80.00; without a demonstration: 72.00. 1 score",
        ),
        ((70.0,) * 300, math.nan, "Best: 70.00."),
    ],
)
def test_a_run_has_a_row_of_its_candidates(scores, baseline, numbers):
    plot = candidates_plot(ranking(*scores, baseline=baseline))
    finite = [score for score in scores if math.isfinite(score)]
    assert first_row(plot) == (sorted(finite), [median(finite), 0])
    assert axis_labels(plot)[0] == "sts (primary score)"
    assert numbers in plot.caption


def test_without_a_finite_score_there_is_no_row():
    assert candidates_plot(ranking(math.nan)) is None
