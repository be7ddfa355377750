"""Scores with coordinates are drawn over each of them, and over the axes of the study."""

from __future__ import annotations

import math
from itertools import product

import attrs
import pytest
from drawn_figures import named_lines
from sentbed.protocols import Score
from sentbed_report.figures.study_figures import study_figures
from sentbed_report.figures.sweeps import sweep_plots
from sentbed_report.study.study_data import (
    AxisInfo,
    CellInfo,
    CellRun,
    StudyData,
    with_runs,
)

SIZE = AxisInfo("size", ("base", "large"), (110e6, 335e6))
PLATFORM = AxisInfo("platform", ("CPU", "GPU"))
SPEED = {"base": 1.0, "large": 0.25, "CPU": 10.0, "GPU": 1000.0}


def rate(labels, length, batch):
    return (
        math.prod(SPEED.get(label, 1.0) for label in labels.values())
        * 64
        / length
        * batch
        / 512
    )


def score(value, place, **more):
    task = "-".join(f"{name}-{at}" for name, at in place.items())
    protocol = {"id": "throughput", **place, "coordinates": list(place), **more}
    return Score(
        task,
        "examples/s",
        value,
        {"encoder": {}, "evaluator": protocol},
        "encoder",
        "throughput",
    )


def study(
    axes=(SIZE, PLATFORM),
    lengths=(32, 64, 128),
    batches=(512, 1024),
    seeds=(1,),
):
    cells = []
    for labels in product(*(axis.labels for axis in axes)):
        name = ", ".join(labels)
        label_of_axis = dict(zip((axis.name for axis in axes), labels, strict=True))

        runs = []
        for seed in seeds:
            scores = []
            for length, batch in product(lengths, batches):
                value = rate(label_of_axis, length, batch) * seed
                scores.append(score(value, {"length": length, "batch": batch}))
            runs.append(CellRun(name, seed, "finished", scores=tuple(scores)))
        cells.append(CellInfo(name, label_of_axis, tuple(runs)))

    return StudyData("speed", tuple(axes), tuple(cells), None, tuple(seeds))


def axis_label(plot):
    """Label of the vertical axis, which all panels share."""
    return plot.figure(6).get_supylabel()


def titles(data):
    return [plot.title.partition(" by ")[2] for plot in sweep_plots(data)]


def test_every_coordinate_and_every_axis_is_drawn_over():
    assert titles(study()) == ["size", "platform", "length", "batch"]
    assert titles(study(lengths=(64,))) == ["size", "platform", "batch"]
    assert titles(study(axes=(SIZE,), batches=(512,))) == ["size", "length"]


def test_a_point_is_the_mean_over_the_seeds_at_its_place():
    by_length = sweep_plots(study(axes=(SIZE,), batches=(512,), seeds=(1, 3)))[1]
    assert axis_label(by_length) == "throughput (examples/s)"
    # Base at 32 tokens: 2 x the speed, under the seeds 1 and 3.
    assert named_lines(by_length) == {
        "size base": [(32.0, 4.0), (64.0, 2.0), (128.0, 1.0)],
        "size large": [(32.0, 1.0), (64.0, 0.5), (128.0, 0.25)],
    }
    single = attrs.evolve(
        study(axes=(SIZE,), batches=(512,)), cells=study(axes=(SIZE,)).cells[:1]
    )
    (plot, _) = sweep_plots(single)
    assert plot.title == "throughput, examples/s by length"


def test_lines_are_labels_of_an_axis_and_panels_are_the_rest():
    by_length = sweep_plots(study(lengths=(32, 64)))[2]
    for text in ("size base", "size large", "CPU, batch 512", "GPU, batch 1024"):
        assert f">{text}<" in by_length.element("f-")

    assert by_length.caption == ""


def test_of_many_panels_some_are_drawn_and_the_caption_says_so():
    many = sweep_plots(study(axes=(SIZE,), lengths=(1, 2), batches=range(1, 8)))[1]
    assert many.caption == "The first 6 of 7 panels are drawn."


def test_scores_of_unlike_protocols_are_said_to_be():
    data = study(axes=(PLATFORM,))
    first, *rest = data.cells
    (run,) = first.runs
    scores = tuple(
        score(original.value, {"length": 32}, machine={"device": "other"}, examples=4)
        for original in run.scores[:1]
    )
    changed = attrs.evolve(first, runs=(attrs.evolve(run, scores=scores),))
    plot = sweep_plots(attrs.evolve(data, cells=(changed, *rest)))[0]
    assert (
        plot.caption
        == "Not all are measured alike: their protocols differ in machine, examples."
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"coordinates": []},
        {"coordinates": ["length"], "length": "short"},
        {"coordinates": 3},
        {"coordinates": [["length"]]},
    ],
)
def test_what_has_no_coordinate_is_not_drawn(fields):
    data = study(axes=(SIZE,))
    plain = Score(
        "a",
        "b",
        1.0,
        {"encoder": {}, "evaluator": {"id": "p", **fields}},
        "encoder",
        "throughput",
    )

    def with_plain_score(run):
        return attrs.evolve(run, scores=(plain,))

    cells = with_runs(data.cells, with_plain_score)
    assert sweep_plots(attrs.evolve(data, cells=cells)) == []


def test_the_figures_of_a_study_have_the_plots():
    figures = study_figures(study(), ())
    assert figures["sweep-4"].title == "throughput, examples/s by batch"


def test_ticks_are_plain_numbers_on_a_logarithmic_scale():
    by_length = sweep_plots(study(lengths=(32, 64), batches=(512,)))[2]
    assert ">1,000<" in by_length.element("f-")
    assert "mathdefault" not in by_length.element("f-")


def test_cells_without_scores_are_said_in_the_caption():
    data = study(axes=(PLATFORM,))
    first, second = data.cells
    nothing = attrs.evolve(
        second, runs=tuple(attrs.evolve(run, scores=()) for run in second.runs)
    )
    plot = sweep_plots(attrs.evolve(data, cells=(first, nothing)))[0]
    assert plot.caption == "Without scores: GPU."


def test_labels_that_begin_alike_are_lines_and_panels_of_their_own():
    labels = ("a" * 40 + "1", "a" * 40 + "2")
    axes = (AxisInfo("model", labels), AxisInfo("machine", labels))
    by_length = sweep_plots(study(axes, batches=(512,)))[2]
    panels = by_length.figure(6).axes
    assert [len(panel.lines) for panel in panels] == [2, 2]


@pytest.mark.parametrize("axis", ["encoder", "length"])
def test_an_axis_that_is_called_like_another_variable_keeps_its_labels(axis):
    sizes = attrs.evolve(SIZE, name=axis)
    plots = sweep_plots(study(axes=(sizes,), batches=(512,), lengths=(32, 64)))
    lines = [*named_lines(plots[1]).values()]
    assert lines == [[(32.0, 2.0), (64.0, 1.0)], [(32.0, 0.5), (64.0, 0.25)]]
