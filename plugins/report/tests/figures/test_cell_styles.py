"""Which cells figures draw."""

from __future__ import annotations

from drawn_figures import named_lines
from sentbed_report.figures.cell_styles import (
    MOST_LINES,
    best_cells,
    sentence_on_missing,
)
from sentbed_report.figures.study_figures import KINDS, plots_of
from sentbed_report.study.study_data import AxisInfo
from toy_study import POOLER, study


def test_the_cells_drawn_are_the_baseline_and_the_best():
    worth = {f"cell {i}": float(i) for i in range(20)}
    assert best_cells(worth, "cell 3", limit=3) == ("cell 3", "cell 18", "cell 19")
    assert best_cells({**worth, "bad": float("nan")}, None, limit=2) == (
        "cell 18",
        "cell 19",
    )
    assert len(best_cells(worth, None, limit=30)) == 20


def test_of_many_cells_some_are_drawn_by_a_rule_that_is_said():
    numbers = tuple(range(1, 17))
    axes = (POOLER, AxisInfo("batch", tuple(map(str, numbers)), numbers))
    data = study(axes, seeds=(1,), baseline="mean, 3", several=True, expected={})
    (plot,) = plots_of(KINDS["learning"], data, ())
    assert f"Of 32 cells {MOST_LINES} are drawn: the baseline" in plot.caption
    assert "mean, 3" in plot.element("f-")
    assert len(named_lines(plot)) == MOST_LINES


def test_cells_that_a_figure_lacks_are_named_and_of_many_the_first():
    data = study()
    names = [cell.name for cell in data.cells]
    assert sentence_on_missing(data, names, "scores") == ""
    assert (
        sentence_on_missing(data, names[2:], "scores")
        == "Without scores: first, 0.01; first, 0.05."
    )
    many = study(
        seeds=(1,),
        axes=(AxisInfo("batch", tuple("abcdefghijklmnop")),),
        baseline=None,
        expected={},
    )
    sentence = sentence_on_missing(many, (), "scores")
    assert sentence == "Without scores: a; b; c; d and 12 more."
