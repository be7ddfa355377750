"""Scores of demonstrations of a study."""

from __future__ import annotations

from statistics import median

import pytest
from drawn_figures import axis_labels
from sentbed_report.figures.cell_styles import MOST_LINES
from sentbed_report.figures.demonstration_scores import ranking_plot
from sentbed_report.study.study_data import AxisInfo, CellInfo, CellRun, StudyData
from toy_study import POOLER, study


def test_a_row_has_every_candidate_and_their_median() -> None:
    data = study(several=True, seeds=(1, 2))
    plot = ranking_plot(data, "d")
    assert plot is not None
    assert axis_labels(plot)[0] == "senteval-sts (primary score)"
    scores = []
    for run in data.cells[0].runs:
        scores += [row["score"] for row in run.record["ranking"]["rows"] if row["rank"] is not None]
    lines = plot.figure(6).axes[0].lines
    own, harmful, bar = lines[:3]
    drawn = [*own.get_xdata(), *harmful.get_xdata()]  # type: ignore[misc]
    assert sorted(map(float, drawn)) == pytest.approx(sorted(scores))
    assert bar.get_xydata()[0] == pytest.approx((median(scores), 0))  # type: ignore[index]


def test_of_many_cells_some_are_drawn_by_a_rule_that_is_said() -> None:
    numbers = tuple(range(1, 17))
    axes = (POOLER, AxisInfo("batch", tuple(map(str, numbers)), numbers))
    plot = ranking_plot(study(axes, seeds=(1,), baseline="mean, 3", several=True, expected={}), "d")
    assert plot is not None
    assert f"Of 32 cells {MOST_LINES} are drawn: the baseline" in plot.caption
    assert "mean, 3" in plot.svg


@pytest.mark.parametrize("ranking", [[], {"rows": 3}, {"rows": [{"rank": 1, "score": None}]}], ids=str)
def test_records_that_hold_something_else_are_left_out(ranking: object) -> None:
    run = CellRun("a", 1, "finished", record={"ranking": ranking})
    assert ranking_plot(StudyData("s", (), (CellInfo("a", {}, (run,)),), None, (1,)), "d") is None
