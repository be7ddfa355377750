"""Scores over axes of numbers."""

from __future__ import annotations

import attrs
import pytest
from drawn_figures import axis_labels, hollow_points, named_lines
from sentbed_report.figures.numeric_axes import numeric_axis_plots
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.published_number_config import Reference
from sentbed_report.study.study_data import AxisInfo
from toy_study import POOLER, TEMPERATURE, collapsed, study, study_of

SIZES = AxisInfo("model", ("opt-125m", "opt-1.3b", "opt-6.7b"), (125e6, 1.3e9, 6.7e9))


def test_scores_are_drawn_over_every_axis_of_numbers():
    data = study((SIZES, TEMPERATURE, POOLER), seeds=(1, 2), baseline=None, expected={})
    (summary,) = summarise(data, resamples=10)
    sizes, temperatures = numeric_axis_plots(data, summary)
    assert axis_labels(sizes) == ("model", "Avg (spearman)")
    assert axis_labels(temperatures)[0] == "temperature"
    means = {row.cell: row.cells[-1].value for row in summary.rows}
    expected = []
    for number, label in zip((125e6, 1.3e9, 6.7e9), SIZES.labels, strict=True):
        mean = means[f"{label}, 0.05, mean"]
        expected.append(pytest.approx((number, mean)))

    assert named_lines(sizes)["0.05, mean"] == expected


def test_lines_beyond_the_colours_are_thin():
    batch = AxisInfo("batch", tuple("abcdefgh"))
    data = study((batch, TEMPERATURE), seeds=(1,), baseline=None, expected={})
    (summary,) = summarise(data, resamples=10)
    (plot,) = numeric_axis_plots(data, summary)
    assert plot.caption.startswith("Thin: cells that differ in temperature only")


def test_references_are_dashed_lines():
    published = Reference(
        {
            "STS12": 70.0,
            "STS13": 71.0,
            "STSB": 72.0,
            "SICKR": 73.0,
            "AVG/spearman": 71.5,
        },
        source="Table 1",
    )
    data = study(
        references={"BERT": published, "untrained": Reference(cell="first, 0.25")}
    )
    (summary,) = summarise(data, resamples=10)
    (mean,) = (row.cells[-1].value for row in summary.rows if row.cell == "first, 0.25")
    (plot,) = numeric_axis_plots(data, summary)
    assert (
        plot.element("f-").count("stroke-dasharray") == 2 * 2
    )  # each in the plot and in the legend
    assert plot.caption.startswith(
        f"Dashed: BERT 71.50 (Table 1); untrained {mean:.2f} (this study)."
    )
    lines = named_lines(plot)
    assert (lines["BERT"][0][1], lines["untrained"][0][1]) == pytest.approx(
        (71.5, mean)
    )


def test_the_cells_of_references_are_no_points_of_a_line():
    data = study()
    cells = {name: Reference(cell=name) for name in ("first, 0.25", "mean, 0.25")}
    places = []
    for compared in (data, attrs.evolve(data, references=cells)):
        (plot,) = numeric_axis_plots(compared, summarise(compared, resamples=10)[0])
        places.append({x for x, _ in named_lines(plot)["mean"]})

    assert places == [{0.01, 0.05, 0.25}, {0.01, 0.05}]


def test_degenerate_cells_are_hollow_and_on_no_line_and_the_caption_names_what_is_not_drawn():
    numbers = {
        label: {1: {"STSB/spearman": value}}
        for label, value in (("0.01", 70.0), ("0.05", 80.0), ("0.25", 12.0))
    }
    data = collapsed(study_of(numbers, (TEMPERATURE,)), 2)
    (plot,) = numeric_axis_plots(data, *summarise(data))
    assert axis_labels(plot) == ("temperature", "STSB (spearman)")
    assert hollow_points(plot) == [(0.25, 12.0)]
    assert plot.caption == "Hollow, degenerate: 0.25."
    numbers["0.25"][1] = {}
    data = study_of(numbers, (TEMPERATURE,), statuses={"0.25": "failed"})
    (plot,) = numeric_axis_plots(data, *summarise(data))
    assert plot.caption == "Not drawn: 0.25 (failed)."
