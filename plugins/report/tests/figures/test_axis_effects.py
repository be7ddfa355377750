"""Effects of the axes of a study."""

from __future__ import annotations

from statistics import fmean

import pytest
from drawn_figures import axis_labels, hollow_points
from sentbed_report.figures.axis_effects import effects_plot
from sentbed_report.study.build_summary_tables import summarise
from toy_study import collapsed, study, unscored


def test_each_label_has_its_mean_at_its_row():
    data = study()
    (summary,) = summarise(data, resamples=10)
    plot = effects_plot(data, summary)
    assert axis_labels(plot, 1)[0] == "Avg (spearman)"
    diamonds = [
        line for line in plot.figure(6).axes[0].lines if line.get_marker() == "D"
    ]
    for row, label in enumerate(("first", "mean")):
        values = [
            row.cells[-1].value or 0
            for row in summary.rows
            if row.labels["pooler"] == label
        ]
        assert diamonds[row].get_xydata()[0] == pytest.approx((fmean(values), row))

    mean = fmean(row.cells[-1].value or 0 for row in summary.rows[:3])
    assert f"pooler: first at {mean:.2f}" in plot.element("f-")


def test_degenerate_cells_are_hollow_and_cells_without_scores_are_said_in_the_caption():
    data = unscored(collapsed(study(), 0), 1)
    (summary,) = summarise(data, resamples=10)
    plot = effects_plot(data, summary)
    mean = summary.rows[0].cells[-1].value
    # Label `first` is the first row of its axis, label `0.01` that of the other one.
    assert hollow_points(plot, 0) == hollow_points(plot, 1) == [(mean, 0.0)]
    assert plot.caption.endswith(
        "Hollow, degenerate: first, 0.01. Not drawn: first, 0.05 (no score)."
    )
