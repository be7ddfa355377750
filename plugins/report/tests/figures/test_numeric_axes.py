"""Scores over axes of numbers."""

from __future__ import annotations

import pytest
from drawn_figures import axis_labels, named_lines
from sentbed_report.figures.numeric_axes import numeric_axis_plots
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import AxisInfo
from toy_study import POOLER, TEMPERATURE, study

SIZES = AxisInfo("model", ("opt-125m", "opt-1.3b", "opt-6.7b"), (125e6, 1.3e9, 6.7e9))


def test_scores_are_drawn_over_every_axis_of_numbers():
    data = study((SIZES, TEMPERATURE, POOLER), seeds=(1, 2), baseline=None, expected={})
    (summary,) = summarise(data)
    sizes, temperatures = numeric_axis_plots(data, summary)
    assert axis_labels(sizes) == ("model", "Avg (spearman)")
    assert axis_labels(temperatures)[0] == "temperature"
    means = {row.cell: row.cells[-1].value for row in summary.rows}
    expected = []
    for number, label in zip((125e6, 1.3e9, 6.7e9), SIZES.labels, strict=True):
        mean = means[f"{label}, 0.05, mean"]
        expected.append(pytest.approx((number, mean)))

    assert named_lines(sizes)["0.05, mean"] == expected
