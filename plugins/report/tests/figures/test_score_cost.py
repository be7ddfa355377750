"""Scores of cells against their costs."""

from __future__ import annotations

from drawn_figures import axis_labels, hollow_points, named_lines
from sentbed_report.figures.score_cost import cost_plot
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.score_against_cost import scores_against_cost
from toy_study import collapsed, cost, study_of, unscored, with_costs

LEVELS = {"a": 70.0, "b": 80.0, "c": 10.0, "d": 60.0, "e": 65.0}


def study_with_costs():
    """Cells whose costs are 1, 2, ...; `c` is degenerate, `d` has no score."""
    data = study_of(
        {name: {1: {"STSB/spearman": level}} for name, level in LEVELS.items()}
    )
    data = unscored(collapsed(data, 2), 3)
    return with_costs(
        data, lambda cell: [cost("time", 1.0 + [*LEVELS].index(cell.name), "en", "s")]
    )


def test_degenerate_cells_are_hollow_and_cells_without_scores_are_said_in_the_caption():
    data = study_with_costs()
    (against,) = scores_against_cost(summarise(data))
    plot = cost_plot(data, against)
    assert axis_labels(plot) == ("time (s)", "STSB (spearman)")
    assert named_lines(plot) == {
        "a": [(1.0, 70.0)],
        "b": [(2.0, 80.0)],
        "e": [(5.0, 65.0)],
    }
    assert hollow_points(plot) == [(3.0, 10.0)]
    assert plot.caption.endswith(
        "Hollow, degenerate: c. Not drawn, since a number is missing: d."
    )
