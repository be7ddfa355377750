"""Planes of two scores, and the order of encoders."""

from __future__ import annotations

import math

from sentbed_report.figures.trajectories import encoder_planes
from sentbed_report.score_planes import encoder_order
from toy_run_report import geometry_score


def test_an_encoder_stands_next_to_its_start():
    assert encoder_order(["en@start", "zh@start", "en", "zh", "en"]) == (
        "en@start",
        "en",
        "zh@start",
        "zh",
    )


def test_a_plane_pairs_only_equal_protocols_and_tasks():
    (plane,) = encoder_planes(
        [
            geometry_score("STS-B", "alignment", 0.2),
            geometry_score("STS-B", "uniformity", -2.0),
            geometry_score("STS-B", "alignment", 0.1, "st5"),
            geometry_score("another", "uniformity", -1.0, "st5"),
            geometry_score("STS-B", "uniformity", math.nan, "st5"),
        ]
    )
    assert plane.protocol == "wang-isola"
    points = plane.points[["encoder", "x", "y"]].to_dict("records")
    assert points == [{"encoder": "encoder", "x": -2.0, "y": 0.2}]
