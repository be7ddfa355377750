"""Watched scores in a plane."""

from __future__ import annotations

import math

from sentbed.protocols import Watched
from sentbed_report.figures.trajectories import watched_planes
from toy_run_report import watched_geometry


def positions(plane):
    """Encoder, step, x and y of each position."""
    return [
        *plane.points[["encoder", "step", "x", "y"]].itertuples(index=False, name=None)
    ]


def test_a_trajectory_pairs_both_numbers_of_a_look_and_shares_axes_under_one_protocol_and_task():
    dev, val = watched_planes(
        [
            watched_geometry(
                "zh", "STSB-dev", "wang-isola", (-1.0, 0.3), (-2.0, 0.25), (-2.5, 0.2)
            ),
            watched_geometry(
                "en", "STSB-dev", "wang-isola", (-1.5, 0.4), (-2.25, 0.35)
            ),
            watched_geometry("en", "val", "wang-isola", (-0.5, 1.5), (-0.75, 1.25)),
        ]
    )
    assert (dev.title, val.title) == (
        "wang-isola, STSB-dev, geometry",
        "wang-isola, val, geometry",
    )
    assert positions(dev) == [
        ("zh", 0, -1.0, 0.3),
        ("zh", 100, -2.0, 0.25),
        ("zh", 200, -2.5, 0.2),
        ("en", 0, -1.5, 0.4),
        ("en", 100, -2.25, 0.35),
    ]


def test_two_conventions_of_one_look_are_two_trajectories():
    wang_isola, st5 = (
        watched_geometry("e", "t", "wang-isola", (-2.0, 0.2)),
        watched_geometry("e", "t", "st5", (-3.0, 0.5)),
    )
    both = Watched(
        "e",
        "geometry",
        wang_isola.scores + st5.scores,
        [0],
        [1.8],
        [wang_isola.values[0] + st5.values[0]],
    )
    assert [positions(plane) for plane in watched_planes([both])] == [
        [("e", 0, -2.0, 0.2)],
        [("e", 0, -3.0, 0.5)],
    ]


def test_an_encoder_that_is_watched_twice_has_two_panels():
    twice = [
        watched_geometry("e", "t", "p", (-1.0, 0.5)),
        watched_geometry("e", "t", "p", (-2.0, 0.4)),
    ]
    first, second = watched_planes(
        [*twice, watched_geometry("f", "t", "p", (-3.0, 0.3))]
    )
    assert positions(first) == [("e", 0, -1.0, 0.5), ("f", 0, -3.0, 0.3)]
    assert positions(second) == [("e", 0, -2.0, 0.4)]


def test_a_look_without_finite_numbers_is_left_out():
    (plane,) = watched_planes(
        [
            watched_geometry(
                "e", "t", "p", (math.nan, 0.5), (-1.0, 0.4), (-2.0, math.inf)
            )
        ]
    )
    assert positions(plane) == [("e", 100, -1.0, 0.4)]
    assert watched_planes([watched_geometry("e", "t", "p", (math.nan, 0.5))]) == []
