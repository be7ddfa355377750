"""Scores of cells against their costs."""

from __future__ import annotations

import attrs
from drawn_figures import axis_labels, hollow_points, named_lines
from sentbed.protocols import Score
from sentbed_report.figures.score_cost import cost_plot
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.score_against_cost import scores_against_cost
from sentbed_report.study.study_data import StudyData
from toy_study import study_of

LEVELS = {"a": 70.0, "b": 80.0, "c": 10.0, "d": 60.0, "e": 65.0}


def study_with_costs() -> StudyData:
    """Cells whose costs are 1, 2, ...; `c` is degenerate, `d` has no score."""
    data = study_of({name: {1: {"STSB/spearman": level}} for name, level in LEVELS.items()})
    cells = []
    for place, cell in enumerate(data.cells, start=1):
        (run,) = cell.runs
        (score,) = run.scores
        if cell.name == "c":
            score = attrs.evolve(score, degenerate="collapsed")
        protocol = {"encoder": {}, "evaluator": {"id": "cost"}}
        cost = Score("time", "s", place, protocol, "en", "encoding-cost", direction="lower", axis="cost")
        scores = (cost,) if cell.name == "d" else (score, cost)
        cells.append(attrs.evolve(cell, runs=(attrs.evolve(run, scores=scores),)))
    return attrs.evolve(data, cells=tuple(cells))


def test_degenerate_cells_are_hollow_and_cells_without_scores_are_said_in_the_caption() -> None:
    data = study_with_costs()
    (against,) = scores_against_cost(summarise(data))
    plot = cost_plot(data, against, "c")
    assert axis_labels(plot) == ("time (s)", "STSB (spearman)")
    assert named_lines(plot) == {"a": [(1.0, 70.0)], "b": [(2.0, 80.0)], "e": [(5.0, 65.0)]}
    assert hollow_points(plot) == [(3.0, 10.0)]
    assert plot.caption.endswith("Hollow, degenerate: c. Not drawn, since a number is missing: d.")
