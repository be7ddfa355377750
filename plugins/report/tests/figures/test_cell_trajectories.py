"""Lines of a study's cells through a plane of two watched scores."""

from __future__ import annotations

import json

from drawn_figures import axis_labels, named_lines
from sentbed.protocols import StageCurve
from sentbed_report.figures.cell_trajectories import trajectory_plots
from sentbed_report.report_json import to_json
from sentbed_report.run_report import RunReport
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from toy_run_report import watched_geometry

LOOKS = ((-1.0, 0.5), (-2.0, 0.25))
"""Uniformity and alignment at the steps 0 and 100."""


def watched(*looks, encoder="en"):
    """An evaluator's uniformity and alignment, one look every 100 steps."""
    return watched_geometry(encoder, "STSB-dev", "wang-isola", *looks)


def record(*trajectories, stage="b"):
    """`report.json` of a run with one stage, as it is written and read."""
    curve = StageCurve(stage, [1], [0.5], [0.1], watched=trajectories)
    run = RunReport("run", "finished", None, "", 1.0, "", {}, stages=(curve,))
    return json.loads(to_json(run))


def study_of(cells, baseline=None):
    """A study of finished runs with these records, one a seed."""
    cell_infos = []
    for name, reports in cells.items():
        runs = tuple(
            CellRun(name, seed, "finished", record=report)
            for seed, report in enumerate(reports)
        )
        cell_infos.append(CellInfo(name, {}, runs))

    return StudyData("s", (), tuple(cell_infos), baseline, (0, 1))


def test_each_cell_is_a_line_from_its_first_to_its_last_step():
    data = study_of(
        {
            "dual": [record(watched(*LOOKS))],
            "frozen": [record(watched((-1.0, 0.5), (-3.0, 0.125)))],
        }
    )
    (plot,) = trajectory_plots(data)
    assert plot.title == "Training in stage b: wang-isola, STSB-dev, geometry"
    assert axis_labels(plot) == ("STSB-dev (uniformity)", "STSB-dev (alignment)")
    assert named_lines(plot) == {
        "dual": [(-1.0, 0.5), (-2.0, 0.25)],
        "frozen": [(-1.0, 0.5), (-3.0, 0.125)],
    }
    assert "Lower is better on both axes." in plot.caption
    assert "seeds" not in plot.caption


def test_a_line_is_the_mean_over_the_seeds_at_the_steps_that_all_reached():
    curves = record(watched((-1.0, 1.0), (-2.0, 0.5), (9.0, 9.0)))
    two = record(watched((-2.0, 3.0), (-4.0, 1.0)))
    (plot,) = trajectory_plots(study_of({"a": [curves, two]}))
    assert named_lines(plot) == {"a": [(-1.5, 2.0), (-3.0, 0.75)]}
    assert plot.caption.endswith(
        "Mean over the seeds, at the steps that all of them reached."
    )


def test_encoders_are_lines_of_their_own_and_stages_have_planes_of_their_own():
    both = record(watched(*LOOKS), watched(*LOOKS, encoder="zh"))
    (plot,) = trajectory_plots(study_of({"a": [both], "b": [record(watched(*LOOKS))]}))
    assert [*named_lines(plot)] == ["a: en", "a: zh", "b: en"]
    stages = {"a": [record(watched(*LOOKS))], "b": [record(watched(*LOOKS), stage="a")]}
    assert [
        plot.title.partition(":")[0] for plot in trajectory_plots(study_of(stages))
    ] == [
        "Training in stage b",
        "Training in stage a",
    ]


def test_a_score_that_is_not_finite_is_left_out():
    looks = ((-1.0, 0.5), (-2.0, float("nan")), (-2.0, 0.25))
    (plot,) = trajectory_plots(study_of({"a": [record(watched(*looks))]}))
    assert named_lines(plot) == {"a": [(-1.0, 0.5), (-2.0, 0.25)]}
    assert (
        trajectory_plots(study_of({"a": [record(watched((0.0, float("inf"))))]})) == []
    )
