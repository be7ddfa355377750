"""Curves of a stage: its loss, the metrics of the loss, and watched scores."""

from __future__ import annotations

import math
import re

from drawn_figures import axis_labels, named_lines
from sentbed.protocols import Score, StageCurve, Watched
from sentbed_report.figures.stage_curves import loss_plot, metrics_plots, score_plots
from sentbed_report.figures.trajectories import watched_planes


def test_a_spike_in_a_long_curve_is_drawn():
    def highest(losses):
        plot = loss_plot(StageCurve("s", list(range(len(losses))), losses, []))
        return len(
            {
                y
                for d in re.findall(r' d="(M[^"]*)"', plot.element("f-"))
                for y in re.findall(r"[ML] \S+ (\S+)", d)
            }
        )

    flat = [1.0] * 20_000
    spike = [*flat[:777], 9.0, *flat[778:]]
    assert highest(spike) > highest(flat)


def test_losses_that_are_not_finite_are_counted_not_drawn():
    plot = loss_plot(
        StageCurve("s", [1, 2, 3], [1.0, math.nan, math.inf], [1.0, 1.0, 1.0])
    )
    assert "2 logged losses not finite, not drawn." in plot.caption


def test_the_smoothed_loss_is_a_centred_mean_over_as_many_steps_on_both_sides():
    losses = [float(step**2 % 97) for step in range(150)]
    plot = loss_plot(StageCurve("s", list(range(150)), losses, []))
    assert plot is not None
    for step, value in named_lines(plot)["loss"]:
        near = int(min(3, step, 149 - step))
        window = losses[int(step) - near : int(step) + near + 1]
        assert math.isclose(
            value, sum(window) / len(window), rel_tol=1e-9, abs_tol=1e-9
        )


def test_the_metrics_of_the_loss_are_drawn_where_there_are_numbers():
    metrics = {"temperature": [1.0, 0.5], "accuracy": [math.nan, math.nan]}
    (plot,) = metrics_plots(StageCurve("s", [1, 2], [0.0, 0.0], [], metrics=metrics))
    assert named_lines(plot) == {"temperature": [(1.0, 1.0), (2.0, 0.5)]}
    assert metrics_plots(StageCurve("s", [1], [0.0], [])) == []


def score(task, metric, axis=""):
    return Score(
        task,
        metric,
        math.nan,
        {"encoder": {}, "evaluator": {"id": "p"}},
        "en",
        "e",
        axis=axis,
    )


def test_a_watched_score_that_is_no_geometry_is_a_line_an_encoder():
    watched = Watched(
        "en",
        "sts",
        (score("dev", "spearman"),),
        [0, 100],
        [50.0, 62.5],
        [[50.0], [62.5]],
    )
    (plot,) = score_plots([watched])
    assert plot.title == "sts: dev"
    assert axis_labels(plot) == ("step", "sts (primary score)")
    assert named_lines(plot) == {"en": [(0.0, 50.0), (100.0, 62.5)]}
    other = Watched(
        "zh", "sts", watched.scores, [0, 100], [51.0, 60.0], [[51.0], [60.0]]
    )
    (both,) = score_plots([watched, other])
    assert [*named_lines(both)] == ["en", "zh"]
    watch = Watched(
        "zh", "sts", watched.scores, [0, 100], [math.nan, math.nan], [[50.0], [62.5]]
    )
    assert score_plots([watch]) == []


def test_what_a_trajectory_does_not_show_of_a_geometry_is_a_line_a_measure():
    plane = (score("dev", "alignment", "y"), score("dev", "uniformity", "x"))
    more = (score("dev", "anisotropy"), score("dev", "top-singular-share"))
    values = [[0.5, -1.0, 0.5, 0.125], [0.25, -2.0, 0.25, 0.125]]
    watched = Watched("en", "geometry", plane + more, [0, 100], [0.0, 0.0], values)
    assert len(watched_planes([watched])) == 1
    cosine, share = score_plots([watched])
    assert (cosine.title, share.title) == (
        "geometry anisotropy: dev",
        "geometry top-singular-share: dev",
    )
    assert axis_labels(cosine) == ("step", "dev (anisotropy)")
    assert named_lines(cosine) == {"en": [(0.0, 0.5), (100.0, 0.25)]}
    assert named_lines(share) == {"en": [(0.0, 0.125), (100.0, 0.125)]}
    only_plane = Watched(
        "en", "geometry", plane, [0, 100], [0.0, 0.0], [row[:2] for row in values]
    )
    assert score_plots([only_plane]) == []
