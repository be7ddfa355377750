"""Figures of studies and runs: the points that they draw."""

from __future__ import annotations

import math
from statistics import fmean

import attrs
import matplotlib
import pytest
from drawn_figures import axis_labels, named_lines
from sentbed.errors import RunError
from sentbed.protocols import StageCurve
from sentbed_report.figures.figure_files import write_figure
from sentbed_report.figures.geometry import geometry_plots, watched_scores
from sentbed_report.figures.lines import spans_powers
from sentbed_report.figures.plot import MUTED
from sentbed_report.figures.study_figures import (
    effect_plots,
    figure_named,
    score_dots,
    study_figures,
)
from sentbed_report.figures.training_curves import RunStage, training_plots
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.published_number_config import Reference
from sentbed_report.study.study_data import AxisInfo, with_runs
from toy_run_report import stage, watched_geometry
from toy_study import POOLER, TEMPERATURE, cost, study, with_costs

SIZES = AxisInfo("model", ("opt-125m", "opt-1.3b", "opt-6.7b"), (125e6, 1.3e9, 6.7e9))
PASSES = {"first": 2.0, "mean": 1.0}


@pytest.fixture(scope="module")
def data():
    """A study whose cells have costs, the first of which is `passes`."""
    return with_costs(
        study(several=True, seeds=(1, 2)),
        lambda cell: [cost("passes", PASSES[cell.labels["pooler"]])],
    )


@pytest.fixture(scope="module")
def figures(data):
    return study_figures(data, summarise(data))


def mean(data, cell, task, metric):
    """Mean of a cell's scores over the seeds."""
    scores = []
    for run in data.runs:
        for score in run.scores:
            if (run.cell, score.task, score.metric) == (cell, task, metric):
                scores.append(score.value)

    return fmean(scores)


def test_figures_are_named_by_kind_and_number(data, figures):
    kinds = [name for name in figures if "-" not in name]

    assert kinds == ["scores", "effects", "numbers", "cost", "geometry", "learning"]
    assert figures["cost-2"].title.startswith("senteval-transfer")

    of_task = study_figures(data, summarise(data), "STS13")

    assert axis_labels(of_task["cost"]) == ("passes", "STS13 (spearman)")

    with pytest.raises(RunError, match="no figure `pie`; its figures are `scores`"):
        figure_named(figures, "pie")

    with pytest.raises(RunError, match="no scores of the task `STSX`"):
        study_figures(data, summarise(data), "STSX")


def test_a_study_of_which_nothing_has_finished_has_no_figures():
    def waiting(run):
        return attrs.evolve(run, status="waiting", scores=(), record={})

    data = study(seeds=(1,))
    data = attrs.evolve(data, cells=with_runs(data.cells, waiting))

    assert study_figures(data, summarise(data)) == {}


def test_scores_are_drawn_over_every_axis_of_numbers():
    data = study((SIZES, TEMPERATURE, POOLER), seeds=(1, 2), baseline=None, expected={})
    (summary,) = summarise(data)
    figures = study_figures(data, [summary])

    assert axis_labels(figures["numbers"]) == ("model", "Avg (spearman)")
    assert axis_labels(figures["numbers-2"])[0] == "temperature"

    means = {row.cell: row.cells[-1].value for row in summary.rows}
    expected = []
    for number, label in zip((125e6, 1.3e9, 6.7e9), SIZES.labels, strict=True):
        expected.append(pytest.approx((number, means[f"{label}, 0.05, mean"])))

    assert named_lines(figures["numbers"])["0.05, mean"] == expected


def test_a_cell_that_is_a_reference_is_a_line_and_no_point():
    references = {
        "opt": Reference(cell="opt-6.7b"),
        "BERT": Reference(scores={"AVG": 50.0}),
    }
    data = study((SIZES,), seeds=(1,), baseline=None, expected={})
    data = attrs.evolve(data, references=references)
    (summary,) = summarise(data)
    figure = study_figures(data, [summary])["numbers"]
    lines = figure.figure(3.0).axes[0].lines
    of_references = {line.get_label(): line.get_ydata()[0] for line in lines[1:]}
    assert of_references == {"opt": pytest.approx(summary.rows[2].cells[-1].value)}
    assert list(lines[0].get_xdata()) == [125e6, 1.3e9]


def test_points_are_at_the_mean_costs_and_scores_of_their_cells(data, figures):
    summary = summarise(data)[0]
    points = named_lines(figures["cost"])
    for row in summary.rows:
        passes = PASSES[row.labels["pooler"]]
        assert points[row.name] == [pytest.approx((passes, row.cells[-1].value))]


def test_a_cell_is_a_point_of_the_plane_at_its_means(data, figures):
    assert axis_labels(figures["geometry"]) == (
        "STSB (uniformity), lower is better",
        "STSB (alignment), lower is better",
    )

    for cell, (point,) in named_lines(figures["geometry"]).items():
        uniformity = mean(data, cell, "STSB", "uniformity")
        alignment = mean(data, cell, "STSB", "alignment")
        assert point == pytest.approx((uniformity, alignment))


def test_intervals_of_cells_are_those_of_differences_from_the_best(data):
    summary = summarise(data)[0]
    best, *others = score_dots(summary)

    assert (best.low, best.high) == (best.value, best.value)

    for dot, row in zip(others, summary.groups.rows[1:], strict=True):
        assert dot.low <= dot.value <= dot.high
        # A cell is drawn strong if the best does not beat it.
        assert dot.strong is not row.beaten


def test_an_effect_without_a_test_is_drawn_pale(study_of):
    numbers = {"first": {1: {"MR": 60.0}}, "mean": {1: {"MR": 70.0}}}
    data = study_of(numbers, [POOLER])
    (plot,) = effect_plots(data, summarise(data))
    line = plot.figure(3.0).axes[0].lines[-1]

    assert (line.get_label(), line.get_color()) == ("mean", MUTED)


def test_validations_are_the_mean_over_the_runs_at_the_steps_that_all_reached():
    runs = [
        RunStage("a", "1", StageCurve("s", [], [], [], validations=[(1, 2.0)])),
        RunStage("a", "2", StageCurve("s", [], [], [], validations=[(1, 4.0), (2, 9)])),
    ]
    (plot,) = training_plots(runs)

    assert named_lines(plot) == {"a": [(1.0, 3.0)]}


def test_encoders_are_lines_through_a_plane_along_the_steps_of_a_stage():
    runs = []
    for run, places in {
        "1": ((-1.0, 0.5), (-2.0, math.nan), (-2.0, 0.25)),
        "2": ((-3.0, 0.5), (-2.0, 0.25), (-4.0, 0.25)),
    }.items():
        watched = watched_geometry("en", "dev", "wang-isola", *places)
        curve = StageCurve("nli", [], [], [], watched=[watched])
        runs.append(RunStage("a", run, curve))

    (plot,) = geometry_plots(watched_scores(runs))

    assert "wang-isola, dev, geometry" in plot.title
    assert named_lines(plot)["a"] == [(-2.0, 0.5), (-3.0, 0.25)]


def test_a_spike_in_a_long_curve_is_drawn_and_no_number_that_is_not_finite():
    losses = [1.0] * 20_000
    losses[777] = 9.0
    losses[778] = math.nan
    curve = StageCurve("s", list(range(20_000)), losses, [])
    (plot,) = training_plots([RunStage("", "", curve)])
    raw, smooth = plot.figure(3).axes[0].lines

    assert raw.get_ydata().max() == 9
    assert 1 < smooth.get_ydata().max() < 9


@pytest.mark.parametrize(
    ("numbers", "powers"),
    [
        ((0.01, 0.05, 0.25), True),
        ((64, 128, 256), False),
        ((1, 2, 3, 4), False),
        ((0, 100), False),
        ((-1, 100), False),
    ],
)
def test_a_scale_is_logarithmic_where_numbers_span_powers(numbers, powers):
    assert spans_powers(numbers) is powers


@pytest.fixture(scope="module")
def plot():
    return training_plots([RunStage("", "", stage())])[0]


@pytest.mark.slow
def test_files_are_the_same_whatever_matplotlib_is_set_to(plot, tmp_path):
    for suffix in ("pdf", "svg", "png"):
        write_figure(plot.figure(3.3), tmp_path / f"a.{suffix}")
        with matplotlib.rc_context({"font.size": 30, "savefig.bbox": "tight"}):
            write_figure(plot.figure(3.3), tmp_path / f"b.{suffix}")
        content = (tmp_path / f"a.{suffix}").read_bytes()
        assert content == (tmp_path / f"b.{suffix}").read_bytes()

    assert b"/FontFile2" in (tmp_path / "a.pdf").read_bytes()


def test_a_file_has_its_size_and_a_format_that_is_known(plot, tmp_path):
    write_figure(plot.figure(3.3), tmp_path / "a.svg")

    assert 'width="237.6pt" height="166.32pt"' in (tmp_path / "a.svg").read_text()

    with pytest.raises(RunError, match=r"which is no figure format; use "):
        write_figure(plot.figure(3.3), tmp_path / "a.gif")
