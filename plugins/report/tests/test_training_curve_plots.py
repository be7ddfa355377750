"""Figures of what a stage watched: trajectories, scores, metrics of the loss."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest
from sentbed.protocols import Watched
from sentbed_report.training_curve_plots import metrics_plot, score_plots, trajectory_panels, trajectory_plot
from toy_run_report import score, stage, watched_geometry, watched_stage


def test_a_trajectory_pairs_both_numbers_of_an_evaluation_of_one_protocol_and_task() -> None:
    dev, val = trajectory_panels(watched_stage().watched)
    assert (dev.title, val.title) == ("wang-isola, STSB-dev, geometry", "wang-isola, val, geometry")
    assert [line.encoder for line in dev.lines] == ["zh", "en"]
    assert [(place.step, place.x, place.y) for place in dev.lines[1].places] == [
        (0, -1.5, 0.4),
        (100, -2.25, 0.35),
    ]
    step, (zh, en) = dev.rows[2]
    assert (step, en) == (200, None)
    assert zh is not None
    assert zh.y == 0.2


def test_two_conventions_of_one_evaluation_are_two_trajectories() -> None:
    first = watched_geometry("e", "t", "wang-isola", (-2.0, 0.2))
    second = watched_geometry("e", "t", "st5", (-3.0, 0.5))
    scores, values = first.scores + second.scores, [first.values[0] + second.values[0]]
    panels = trajectory_panels([Watched("e", "geometry", scores, [0], [1.8], values)])
    places = [panel.lines[0].places[0] for panel in panels]
    assert [(place.x, place.y) for place in places] == [(-2.0, 0.2), (-3.0, 0.5)]


def test_an_encoder_that_is_watched_twice_has_two_panels() -> None:
    panels = trajectory_panels(
        [
            watched_geometry("e", "t", "p", (-1.0, 0.5)),
            watched_geometry("e", "t", "p", (-2.0, 0.4)),
            watched_geometry("f", "t", "p", (-3.0, 0.3)),
        ]
    )
    encoders = []
    for panel in panels:
        encoders.append([line.encoder for line in panel.lines])
    assert encoders == [["e", "f"], ["e"]]


def test_an_evaluation_without_finite_numbers_is_left_out() -> None:
    places = ((math.nan, 0.5), (-1.0, 0.4), (-2.0, math.inf))
    (panel,) = trajectory_panels([watched_geometry("e", "t", "p", *places)])
    assert [place.step for place in panel.lines[0].places] == [100]
    assert trajectory_panels([watched_geometry("e", "t", "p", places[0])]) == ()


def test_a_trajectory_is_drawn_with_arrows_and_a_hollow_first_point(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    arrows = []
    annotate = Axes.annotate

    def record(axes: Axes, text: str, xy: tuple[float, float], **options: Any) -> Any:
        arrows.append((options["xytext"], xy))
        return annotate(axes, text, xy, **options)

    monkeypatch.setattr(Axes, "annotate", record)
    # The third evaluation is where the second one was: a move that leads nowhere has no direction.
    places = [(-1.0, 0.5), (-2.0, 0.25), (-2.0, 0.25), (-1.5, 0.125)]
    (panel,) = trajectory_panels([watched_geometry("en", "t", "p", *places)])
    plot = trajectory_plot(panel, "t")
    assert "from 0.500, −1.000 at step 0 to 0.125, −1.500 at step 300" in plot.svg
    assert sorted(set(arrows)) == [((-2.0, 0.25), (-1.5, 0.125)), ((-1.0, 0.5), (-2.0, 0.25))]
    assert plot.svg.count("fill: var(--page)") == 1
    assert "From step 0 (hollow) to step 300" in plot.caption
    assert ">en<" not in plot.svg, "one line needs no legend"


def test_a_long_trajectory_has_few_arrows_and_a_small_drawing() -> None:
    places = [(-3 * i / 1000, 1 - i / 2000) for i in range(1000)]
    (panel,) = trajectory_panels([watched_geometry("en", "t", "p", *places)])
    assert len(trajectory_plot(panel, "t").svg) < 40_000


def test_a_watched_score_that_is_no_geometry_is_a_line_an_encoder() -> None:
    watched = watched_stage().watched
    (plot,) = score_plots(watched, "w")
    assert plot.title == "sts: dev"
    assert "en: from 50.00 to 62.50" in plot.svg
    again = attrs.evolve(watched[3], encoder="zh")
    (both,) = score_plots([*watched, again], "w")
    assert ">en<" in both.svg
    assert ">zh<" in both.svg
    assert score_plots([attrs.evolve(again, primary=[math.nan, math.nan])], "w") == ()


def test_what_a_trajectory_does_not_show_of_a_geometry_is_a_line_a_measure() -> None:
    both = watched_geometry("en", "dev", "wang-isola", (-1.0, 0.5), (-2.0, 0.25))
    more = (
        score("dev", math.nan, "en", "anisotropy", "geometry"),
        score("dev", math.nan, "en", "top-singular-share", "geometry"),
    )
    values = [[*both.values[0], 0.5, 0.125], [*both.values[1], 0.25, 0.125]]
    watched = attrs.evolve(both, scores=both.scores + more, values=values)
    assert len(trajectory_panels([watched])) == 1
    cosine, share = score_plots([watched], "w")
    assert (cosine.title, share.title) == ("geometry anisotropy: dev", "geometry top-singular-share: dev")
    assert "en: from 0.500 to 0.250" in cosine.svg
    assert "en: from 0.125 to 0.125" in share.svg
    assert score_plots([both], "w") == ()


def test_the_metrics_of_the_loss_are_drawn_where_there_are_numbers() -> None:
    plot = metrics_plot(watched_stage(), "m")
    assert plot is not None
    assert "temperature: from 1 to 0.025" in plot.svg
    assert "accuracy" not in plot.svg
    assert metrics_plot(stage(), "m") is None
