"""The figures of a study by name."""

from __future__ import annotations

from statistics import fmean

import attrs
import pytest
from sentbed.errors import RunError
from sentbed_report.figures.study_figures import KINDS, figure_named, study_figures
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import with_runs
from toy_study import cost, study, with_costs

PASSES = {"first": 2.0, "mean": 1.0}


@pytest.fixture(scope="module")
def data():
    """A study whose cells have costs, the first of which is `passes`."""
    return with_costs(
        study(several=True, seeds=(1, 2)),
        lambda cell: [
            cost("passes", PASSES[cell.labels["pooler"]]),
            cost("tokens", 10.0),
        ],
    )


@pytest.fixture(scope="module")
def summaries(data):
    return summarise(data)


def of(data, task):
    """Cell -> mean of a task over its seeds."""
    means = {}
    for cell in data.cells:
        scores = [score for run in cell.runs for score in run.scores]
        means[cell.name] = fmean(score.value for score in scores if score.task == task)

    return means


def test_figures_are_named_by_kind_and_number_in_the_order_of_the_report(
    data, summaries
):
    figures = study_figures(data, summaries)
    assert [name for name in figures if name in KINDS] == [
        *("ranks", "numbers", "cost", "geometry", "learning")
    ]
    assert figures["cost"].title == "senteval-sts: Avg against passes"


def test_a_task_takes_the_place_of_the_average(data, summaries):
    figures = study_figures(data, summaries, "STS13")
    # Those of no table are of no task.
    assert [*figures] == ["numbers", "cost"]
    assert figures["cost"].title == "senteval-sts: STS13 against passes"


def test_points_of_costs_are_at_the_scores_of_the_task(data, summaries):
    axes = study_figures(data, summaries, "STS13")["cost"].figure(3.3).axes[0]
    points = set()
    for line in axes.lines:
        if len(line.get_xdata()) == 1:
            points.add((float(line.get_xdata()[0]), float(line.get_ydata()[0])))

    expected = {
        (PASSES[name.partition(",")[0]], value)
        for name, value in of(data, "STS13").items()
    }
    assert sorted(points) == [pytest.approx(point) for point in sorted(expected)]


def test_a_figure_that_is_not_there_is_refused_with_those_that_are(data, summaries):
    figures = study_figures(data, summaries)
    assert (
        figure_named(figures, "cost-2").title
        == "senteval-transfer, transfer: Avg against passes"
    )
    with pytest.raises(
        RunError, match=r"no figure `costs`; its figures are `ranks`, .*`learning`"
    ):
        figure_named(figures, "costs")
    with pytest.raises(
        RunError, match=r"no figure `costs`; .*\. Did you mean `cost`\?$"
    ):
        figure_named(figures, "costs")
    with pytest.raises(
        RunError, match=r"no figure `pie`; its figures are `ranks`, .*`learning`$"
    ):
        figure_named(figures, "pie")
    without = {
        name: plot for name, plot in figures.items() if not name.startswith("cost")
    }
    with pytest.raises(
        RunError,
        match=r"a cost that was measured; set `cost` in `\[study\]` to one of `passes`, ",
    ):
        figure_named(without, "cost", "", summaries)
    with pytest.raises(
        RunError,
        match=r"`trajectory` \(such planes over training\) needs stages that watch",
    ):
        figure_named(figures, "trajectory")
    with pytest.raises(
        RunError, match=r"no scores of the task `STSX`; its tasks are: `STS12`, .*`AVG`"
    ):
        study_figures(data, summaries, "STSX")
    with pytest.raises(RunError, match="`learning` is not of one task"):
        figure_named(study_figures(data, summaries, "STSB"), "learning", "STSB")


def test_a_study_of_which_nothing_has_finished_has_no_figures():
    done = study(seeds=(1,))

    def waiting(run):
        return attrs.evolve(run, status="waiting", scores=(), record={})

    data = attrs.evolve(done, cells=with_runs(done.cells, waiting))
    figures = study_figures(data, summarise(data))
    assert figures == {}
    with pytest.raises(RunError, match="no figure of it can be drawn yet"):
        figure_named(figures, "ranks")
