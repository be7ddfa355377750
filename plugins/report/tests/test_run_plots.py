"""Figures of a run: loss, scatter plots, the candidates of a search."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import attrs
import numpy as np
import pytest
from sentbed.protocols import Scatter, StageCurve
from sentbed_report.page.report_page import page_html
from sentbed_report.run_page.run_page import run_page
from sentbed_report.run_plots import (
    POINTS_PER_SCATTER,
    loss_plot,
    ranking_plot,
    scatter_groups,
    step_axis,
    validation_plot,
)
from toy_run_report import full, ranking, stage


@pytest.mark.parametrize(
    ("steps", "apart"), [((10, 20, 30, 40), 10), ((15, 30), 5), ((1, 24), 5), ((250, 3000), 1000)]
)
def test_steps_are_ticked_at_round_numbers(steps: tuple[int, ...], apart: int) -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    axes.plot(steps, steps)
    step_axis(axes)
    ticks = [tick for tick in axes.get_xticks() if steps[0] <= tick <= steps[-1]]
    assert len(ticks) >= 3
    assert {later - earlier for earlier, later in pairwise(ticks)} == {apart}
    assert all(tick % apart == 0 for tick in ticks)


# --- loss --------------------------------------------------------------------------------------------------


def heights_of_lines(losses: list[float]) -> set[str]:
    """Return the vertical positions that the lines of a loss plot go through."""
    plot = loss_plot(StageCurve("s", list(range(len(losses))), losses, []), "l")
    assert plot is not None
    heights: set[str] = set()
    for path in re.findall(r' d="(M[^"]*)"', plot.svg):
        heights.update(re.findall(r"[ML] \S+ (\S+)", path))
    return heights


def test_a_spike_in_a_long_curve_is_drawn() -> None:
    flat = [1.0] * 20_000
    spike = [*flat[:777], 9.0, *flat[778:]]
    assert len(heights_of_lines(spike)) > len(heights_of_lines(flat))


def test_losses_that_are_not_finite_are_counted_not_drawn() -> None:
    plot = loss_plot(StageCurve("s", [1, 2, 3], [1.0, math.nan, math.inf], [1.0, 1.0, 1.0]), "l")
    assert plot is not None
    assert "2 logged losses not finite, not drawn." in plot.caption


def test_a_single_step_is_drawn() -> None:
    assert loss_plot(StageCurve("s", [1], [0.0], [0.0]), "l") is not None


def test_a_figure_says_what_it_shows_and_keeps_its_text() -> None:
    plot = loss_plot(stage(), "l")
    assert plot is not None
    label = r'aria-label="Training loss of stage nli: from 3.1 at step 1 to \S+ at step 40"'
    assert re.search(label, plot.svg)
    assert ">step</text>" in plot.svg
    assert "xmlns" not in plot.svg
    assert "<style" not in plot.svg


def test_the_best_validation_is_marked() -> None:
    plot = validation_plot(stage(), "v")
    assert plot is not None
    assert plot.caption == "Best: 80.50 at step 20, whose weights were kept."
    assert ">80.50<" in plot.svg


# --- scatter plots -----------------------------------------------------------------------------------------


def dots(svg: str) -> int:
    return sum(path.count("h0") for path in re.findall(r' d="([^"]*)"', svg))


def test_a_scatter_plot_draws_each_of_its_points() -> None:
    rng = np.random.default_rng(0)
    points = Scatter("t", "x", "y", rng.uniform(size=700), rng.uniform(size=700))
    (group,) = scatter_groups([("encoder", points)], "s")
    assert dots(group.plots[0].svg) == 700
    assert group.caption == "700 points"


def test_a_scatter_plot_of_thousands_is_cut_and_says_so() -> None:
    points = Scatter("t", "x", "y", np.arange(5000.0), np.arange(5000.0))
    (group,) = scatter_groups([("encoder@start", points), ("encoder", points)], "s")
    assert [dots(plot.svg) for plot in group.plots] == [POINTS_PER_SCATTER] * 2
    assert group.caption == "Each: 1,500 of 5,000 points, evenly chosen"


@pytest.mark.slow
def test_a_page_of_many_scatter_plots_and_long_curves_stays_small() -> None:
    rng = np.random.default_rng(0)
    scatters = []
    for task in range(20):
        for encoder in ("encoder@start", "encoder"):
            x, y = rng.uniform(size=(2, 5000))
            scatters.append((encoder, Scatter(f"task {task}", "gold", "cosine", x, y)))
    steps = list(range(100_000))
    curve = StageCurve("long", steps, rng.uniform(size=len(steps)), rng.uniform(size=len(steps)))
    data = attrs.evolve(full(), scatters=tuple(scatters), stages=(curve,))
    assert len(page_html(run_page(data))) < 1_500_000


# --- candidates of a search --------------------------------------------------------------------------------


def bars(svg: str) -> list[float]:
    """Return the height of each bar that has one: a closed path of four corners."""
    corners = re.findall(r'd="M \S+ (\S+) L \S+ \S+ L \S+ (\S+) L \S+ \S+ z', svg)
    heights = [float(bottom) - float(top) for bottom, top in corners]
    return [height for height in heights if height > 0]


def test_a_histogram_counts_the_candidates_and_marks_baseline_and_best() -> None:
    plot = ranking_plot(ranking(80.0, 80.0, 80.0, 76.0, 70.0, math.nan, baseline=72.0), "r")
    assert plot is not None
    heights = bars(plot.svg)
    # Five bins of two from 70 to 80: one at 70, one at 76 (its left edge), three at 80.
    assert [round(height / heights[0], 2) for height in heights[:3]] == [1.0, 1.0, 3.0]
    assert plot.caption == "1 score not finite, not drawn."
    assert "Histogram of 5 scores: best 80.00, no demonstration 72.00" in plot.svg
    assert ">best 80.00<" in plot.svg
    assert ">no demonstration 72.00<" in plot.svg


@pytest.mark.parametrize("scores", [(70.0,), (70.0,) * 300, (99.0, *(1.0 - i / 1e6 for i in range(299)))])
def test_a_histogram_of_odd_scores_is_drawn_in_a_few_bars(scores: tuple[float, ...]) -> None:
    plot = ranking_plot(ranking(*scores), "r")
    assert plot is not None
    assert 1 <= len(bars(plot.svg)) <= 31


def test_without_a_finite_score_there_is_no_histogram() -> None:
    assert ranking_plot(ranking(math.nan), "r") is None
