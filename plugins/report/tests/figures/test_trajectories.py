"""Watched scores in a plane."""

from __future__ import annotations

import math
from typing import Any

import pytest
from drawn_figures import axis_labels, named_lines
from matplotlib.axes import Axes
from sentbed.protocols import Score, Watched
from sentbed_report.figures.trajectories import trajectory_panels, trajectory_plot


def geometry(
    encoder: str, task: str, protocol: str, *places: tuple[float, float], every: int = 100
) -> Watched:
    """Looks at (uniformity, alignment), one every so many steps."""
    scores = []
    for metric, axis in (("alignment", "y"), ("uniformity", "x")):
        details = {"encoder": {}, "evaluator": {"id": protocol}}
        scores.append(
            Score(task, metric, math.nan, details, encoder, "geometry", direction="lower", axis=axis)  # type: ignore[arg-type]
        )
    steps = [every * place for place in range(len(places))]
    values = [[alignment, uniformity] for uniformity, alignment in places]
    return Watched(encoder, "geometry", tuple(scores), steps, [-sum(look) for look in values], values)


def test_a_trajectory_pairs_both_numbers_of_a_look_and_shares_axes_under_one_protocol_and_task() -> None:
    dev, val = trajectory_panels(
        [
            geometry("zh", "STSB-dev", "wang-isola", (-1.0, 0.3), (-2.0, 0.25), (-2.5, 0.2)),
            geometry("en", "STSB-dev", "wang-isola", (-1.5, 0.4), (-2.25, 0.35)),
            geometry("en", "val", "wang-isola", (-0.5, 1.5), (-0.75, 1.25)),
        ]
    )
    assert (dev.title, val.title) == ("wang-isola, STSB-dev, geometry", "wang-isola, val, geometry")
    assert [line.encoder for line in dev.lines] == ["zh", "en"]
    assert [(p.step, p.x, p.y) for p in dev.lines[1].places] == [
        (0, -1.5, 0.4),
        (100, -2.25, 0.35),
    ]
    assert [(step, [p and p.y for p in places]) for step, places in dev.rows] == [
        (0, [0.3, 0.4]),
        (100, [0.25, 0.35]),
        (200, [0.2, None]),
    ]


def test_two_conventions_of_one_look_are_two_trajectories() -> None:
    one, other = geometry("e", "t", "wang-isola", (-2.0, 0.2)), geometry("e", "t", "st5", (-3.0, 0.5))
    both = Watched("e", "geometry", one.scores + other.scores, [0], [1.8], [one.values[0] + other.values[0]])
    places = [panel.lines[0].places[0] for panel in trajectory_panels([both])]
    assert [(p.x, p.y) for p in places] == [(-2.0, 0.2), (-3.0, 0.5)]


def test_an_encoder_that_is_watched_twice_has_two_panels() -> None:
    twice = [geometry("e", "t", "p", (-1.0, 0.5)), geometry("e", "t", "p", (-2.0, 0.4))]
    panels = trajectory_panels([*twice, geometry("f", "t", "p", (-3.0, 0.3))])
    assert [[line.encoder for line in panel.lines] for panel in panels] == [["e", "f"], ["e"]]


def test_a_look_without_finite_numbers_is_left_out() -> None:
    (panel,) = trajectory_panels([geometry("e", "t", "p", (math.nan, 0.5), (-1.0, 0.4), (-2.0, math.inf))])
    assert [place.step for place in panel.lines[0].places] == [100]
    assert trajectory_panels([geometry("e", "t", "p", (math.nan, 0.5))]) == ()


def test_a_trajectory_is_drawn_with_arrows_and_a_hollow_first_point() -> None:
    (panel,) = trajectory_panels([geometry("en", "t", "p", (-1.0, 0.5), (-2.0, 0.25), (-2.0, 0.25))])
    plot = trajectory_plot(panel, "t")
    assert named_lines(plot) == {"en": [(-1.0, 0.5), (-2.0, 0.25), (-2.0, 0.25)]}
    assert axis_labels(plot) == ("t (uniformity)", "t (alignment)")
    assert plot.svg.count("fill: var(--page)") == 1
    assert "From step 0 (hollow) to step 200" in plot.caption
    assert ">en<" not in plot.svg, "one line needs no legend"


def test_the_arrows_of_a_trajectory_are_its_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    annotate = Axes.annotate

    def spy(axes: Axes, text: str, xy: tuple[float, float], **options: Any) -> Any:
        drawn.append((options["xytext"], xy))
        return annotate(axes, text, xy, **options)

    monkeypatch.setattr(Axes, "annotate", spy)
    # The third look found what the second one had: a move that leads nowhere has no direction.
    places = [(-1.0, 0.5), (-2.0, 0.25), (-2.0, 0.25), (-1.5, 0.125)]
    (panel,) = trajectory_panels([geometry("en", "t", "p", *places)])
    trajectory_plot(panel, "t").figure(6)
    assert sorted(drawn) == [((-2.0, 0.25), (-1.5, 0.125)), ((-1.0, 0.5), (-2.0, 0.25))]


def test_a_long_trajectory_has_few_arrows_and_a_small_drawing() -> None:
    places = [(-3 * i / 1000, 1 - i / 2000) for i in range(1000)]
    (panel,) = trajectory_panels([geometry("en", "t", "p", *places)])
    assert len(trajectory_plot(panel, "t").svg) < 40_000
