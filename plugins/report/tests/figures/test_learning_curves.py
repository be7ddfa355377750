"""Validations of the stages of a study."""

from __future__ import annotations

import attrs
from drawn_figures import axis_labels, named_lines
from sentbed_report.figures.learning_curves import learning_curves
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from toy_study import study


def test_curves_are_means_over_the_seeds_at_steps_that_all_reached():
    data = study(seeds=(1, 2))
    shorter = [[25, 10.0], [50, 20.0]]
    longer = [[25, 20.0], [50, 40.0], [75, 1.0]]
    runs = []
    for run, validations in zip(data.cells[0].runs, (shorter, longer), strict=True):
        stage = {"name": "nli", "metric": "dev", "validations": validations}
        runs.append(attrs.evolve(run, record={"stages": [stage]}))
    cell = attrs.evolve(data.cells[0], runs=tuple(runs))
    (plot,) = learning_curves(attrs.evolve(data, cells=(cell, data.cells[1])))[:1]
    assert named_lines(plot) == {"first, 0.01": [(25.0, 15.0), (50.0, 30.0)]}
    assert plot.title == "Validation in stage nli"
    assert axis_labels(plot) == ("step", "dev (primary score)")
    assert plot.caption.endswith("Without validations: first, 0.05.")


def test_curves_of_prompts_are_means_at_the_steps_that_their_runs_reached():
    runs = []
    for prompt, scores in (("short", [10.0, 20.0]), ("long", [20.0, 40.0, 90.0])):
        for seed in (0, 1):
            validations = [
                [25 * number, score + seed] for number, score in enumerate(scores)
            ]
            stage = {"name": "nli", "metric": "dev", "validations": validations}
            runs.append(
                CellRun(
                    "a", seed, "finished", record={"stages": [stage]}, prompt=prompt
                )
            )
    data = StudyData(
        "s",
        (),
        (CellInfo("a", {}, tuple(runs)),),
        None,
        (0, 1),
        prompts=("short", "long"),
    )
    (plot,) = learning_curves(data)
    assert named_lines(plot) == {"a": [(0.0, 15.5), (25.0, 30.5)]}
    assert (
        "Mean over the prompts and seeds, at the steps that all of the runs reached."
        in plot.caption
    )
