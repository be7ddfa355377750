"""Figures of a study: which cells are drawn, over what, and where their points are."""

from __future__ import annotations

import re
from statistics import fmean

import attrs
import numpy as np
import pytest
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.published_number_config import Reference
from sentbed_report.study.study_data import AxisInfo, CellInfo, CellRun, StudyData
from sentbed_report.study_page.axis_effect_plots import effects_plot, number_plots
from sentbed_report.study_page.cell_plots import geometry_plots, learning_curves, ranking_plot
from sentbed_report.study_page.line_styles import LINES, chosen, spans_powers, with_sizes
from toy_study import POOLER, TEMPERATURE, study

SIZES = AxisInfo("model", ("opt-125m", "opt-1.3b", "opt-6.7b"))


def test_curves_are_means_over_the_seeds_at_steps_that_all_reached() -> None:
    data = study(seeds=(1, 2))
    cut = {"stages": [{"name": "nli", "metric": "dev", "validations": [[25, 10.0], [50, 20.0]]}]}
    full = {"stages": [{"name": "nli", "metric": "dev", "validations": [[25, 20.0], [50, 40.0], [75, 1.0]]}]}
    cell = attrs.evolve(
        data.cells[0],
        runs=tuple(attrs.evolve(r, record=f) for r, f in zip(data.cells[0].runs, (cut, full), strict=True)),
    )
    (plot,) = learning_curves(attrs.evolve(data, cells=(cell,)), "v")
    assert "first, 0.01: 30.00 at step 50" in plot.svg
    assert plot.title == "Validation in stage nli"


def test_the_cells_drawn_are_the_baseline_and_the_best() -> None:
    worth = {f"cell {i}": float(i) for i in range(20)}
    assert chosen(worth, "cell 3", limit=3) == ("cell 3", "cell 18", "cell 19")
    assert chosen({**worth, "bad": float("nan")}, None, limit=2) == ("cell 18", "cell 19")
    assert len(chosen(worth, None, limit=30)) == 20


@pytest.mark.parametrize(
    ("labels", "numbers"),
    [
        (("opt-125m", "opt-1.3b", "6.7B"), (125e6, 1.3e9, 6.7e9)),
        (("pythia 70M", "pythia 160M deduped"), (70e6, 160e6)),
        (("base", "opt-1.3b"), None),
        (("v1.5", "v2"), None),
        (("3 bits", "7 bits"), None),
        (("bert-1.3b", "opt-1.3b"), None),
    ],
)
def test_a_model_size_is_read_from_labels_that_all_name_one(
    labels: tuple[str, ...], numbers: tuple[float, ...] | None
) -> None:
    assert with_sizes(AxisInfo("model", labels)).numbers == (
        None if numbers is None else pytest.approx(numbers)
    )


def test_numbers_of_a_numeric_axis_are_left_alone() -> None:
    assert with_sizes(TEMPERATURE) is TEMPERATURE


@pytest.mark.parametrize(
    ("numbers", "powers"),
    [
        ((0.01, 0.05, 0.25), True),
        ((64, 128, 256), True),
        ((125e6, 1.3e9, 6.7e9), True),
        ((1, 2, 3, 4), False),
        ((0, 100), False),
        ((-1, 100), False),
        ((0.1, 0.2), False),
        ((5,), False),
    ],
)
def test_a_scale_is_logarithmic_where_numbers_span_powers(numbers: tuple[float, ...], powers: bool) -> None:
    assert spans_powers(numbers) is powers


def test_scores_are_drawn_over_model_size_and_over_every_axis_of_numbers() -> None:
    data = study((SIZES, TEMPERATURE, POOLER), seeds=(1, 2), baseline=None, expected={})
    (summary,) = summarise(data, resamples=10)
    plots = number_plots(data, summary, "n")
    assert [plot.title.rpartition(" by ")[2] for plot in plots] == ["model", "temperature"]
    sizes, _ = plots
    assert "opt-1.3b" in sizes.svg
    mean = fmean(r.cells[-1].value or 0 for r in summary.rows if r.labels["model"] == "opt-1.3b")
    assert f"1.3e+09: {mean:.2f}" in sizes.svg


def test_lines_beyond_the_colours_are_thin_behind_their_mean() -> None:
    batch = AxisInfo("batch", tuple("abcdefgh"))
    data = study((batch, TEMPERATURE), seeds=(1,), baseline=None, expected={})
    (summary,) = summarise(data, resamples=10)
    (plot,) = number_plots(data, summary, "n")
    assert plot.caption.startswith("Thin: cells that differ in temperature only")


def test_the_effects_plot_tells_each_label() -> None:
    data = study()
    (summary,) = summarise(data, resamples=10)
    plot = effects_plot(data, summary, "e")
    assert plot is not None
    values = [row.cells[-1].value or 0 for row in summary.rows if row.labels["pooler"] == "first"]
    assert f"pooler first: {fmean(values):.2f}" in plot.svg


def test_plots_of_records_that_hold_something_else_are_left_out() -> None:
    records = (
        {"stages": "none", "ranking": []},
        {"stages": [1, {"validations": [[1], "ab", [1, None], [2, float("nan")]]}], "ranking": {"rows": 3}},
        {"stages": None, "ranking": {"rows": [{"rank": 1, "score": None}]}},
    )
    runs = tuple(CellRun("a", i, "finished", record=record) for i, record in enumerate(records))
    data = StudyData("s", (), (CellInfo("a", {}, runs),), None, (0, 1, 2))
    assert learning_curves(data, "v") == ()
    assert ranking_plot(data, "d") is None
    assert geometry_plots(data, "g") == ()


def test_geometry_is_the_mean_of_a_cell_over_its_seeds() -> None:
    data = study(several=True)
    (plot,) = geometry_plots(data, "g")
    cell = data.cells[0]
    found = {
        metric: np.mean([s.value for run in cell.runs for s in run.scores if s.metric == metric])
        for metric in ("alignment", "uniformity")
    }
    expected = f"first, 0.01: {found['alignment']:.3f}, {found['uniformity']:.3f}".replace("-", "−")
    assert expected in plot.svg


def test_points_are_coloured_by_the_score_of_a_task() -> None:
    data = study(several=True)
    (plain,) = geometry_plots(data, "g")
    # The plane's own scores have the same task.
    (coloured,) = geometry_plots(attrs.evolve(data, colour="STSB"), "g")
    assert coloured.caption == f"{plain.caption} Colour: the score of STSB."
    means = {
        cell.name: fmean(
            s.value for run in cell.runs for s in run.scores if (s.task, s.metric) == ("STSB", "spearman")
        )
        for cell in data.cells
    }
    # Viridis: the least is its first colour, the greatest its last.
    assert min(means.values()) < max(means.values())
    fills = re.findall(r"fill: (#[0-9a-f]{6})", coloured.svg)
    assert {"#440154", "#fde725"} <= set(fills)
    assert not {"#440154", "#fde725"} & set(re.findall(r"#[0-9a-f]{6}", plain.svg))
    (without,) = geometry_plots(attrs.evolve(data, colour="none"), "g")
    assert without.svg == plain.svg


def test_the_cells_of_references_are_no_points_of_a_line() -> None:
    data = study()
    (before,) = number_plots(data, summarise(data, resamples=10)[0], "n")
    cells = {name: Reference(cell=name) for name in ("first, 0.25", "mean, 0.25")}
    data = attrs.evolve(data, references=cells)
    (after,) = number_plots(data, summarise(data, resamples=10)[0], "n")
    assert "0.25: " in before.svg
    assert "0.25: " not in after.svg.partition("Dashed")[0]


def test_many_cells_are_drawn_by_a_rule_that_is_said() -> None:
    numbers = tuple(range(1, 17))
    axes = (POOLER, AxisInfo("batch", tuple(map(str, numbers)), numbers))
    data = study(axes, seeds=(1,), baseline="mean, 3", several=True, expected={})
    curves, ranking = learning_curves(data, "v"), ranking_plot(data, "d")
    assert len(data.cells) == 32
    for plot in (*curves, ranking):
        assert plot is not None
        assert f"Of 32 cells {LINES} are drawn: the baseline" in plot.caption
        assert "mean, 3" in plot.svg
    (geometry,) = geometry_plots(data, "g")
    assert "32 points" in geometry.caption
