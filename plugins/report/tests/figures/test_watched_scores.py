"""Watched scores over the steps."""

from __future__ import annotations

import math
from typing import Literal

from drawn_figures import axis_labels, named_lines
from sentbed.protocols import Score, Watched
from sentbed_report.figures.watched_scores import score_plots


def score(task: str, metric: str, axis: Literal["", "x", "y"] = "") -> Score:
    return Score(task, metric, math.nan, {"encoder": {}, "evaluator": {"id": "p"}}, "en", "e", axis=axis)


def test_a_watched_score_that_is_no_geometry_is_a_line_an_encoder() -> None:
    watched = Watched("en", "sts", (score("dev", "spearman"),), [0, 100], [50.0, 62.5], [[50.0], [62.5]])
    (plot,) = score_plots([watched], "w")
    assert plot.title == "sts: dev"
    assert axis_labels(plot) == ("step", "sts (primary score)")
    assert named_lines(plot) == {"en": [(0.0, 50.0), (100.0, 62.5)]}
    other = Watched("zh", "sts", watched.scores, [0, 100], [51.0, 60.0], [[51.0], [60.0]])
    (both,) = score_plots([watched, other], "w")
    assert [*named_lines(both)] == ["en", "zh"]
    lost = Watched("zh", "sts", watched.scores, [0, 100], [math.nan, math.nan], [[50.0], [62.5]])
    assert score_plots([lost], "w") == ()


def test_what_a_trajectory_does_not_show_of_a_geometry_is_a_line_a_measure() -> None:
    plane = (score("dev", "alignment", "y"), score("dev", "uniformity", "x"))
    more = (score("dev", "anisotropy"), score("dev", "top-singular-share"))
    values = [[0.5, -1.0, 0.5, 0.125], [0.25, -2.0, 0.25, 0.125]]
    cosine, share = score_plots([Watched("en", "geometry", plane + more, [0, 100], [0.0, 0.0], values)], "w")
    assert (cosine.title, share.title) == ("geometry anisotropy: dev", "geometry top-singular-share: dev")
    assert axis_labels(cosine) == ("step", "dev (anisotropy)")
    assert named_lines(cosine) == {"en": [(0.0, 0.5), (100.0, 0.25)]}
    assert named_lines(share) == {"en": [(0.0, 0.125), (100.0, 0.125)]}
    only_plane = Watched("en", "geometry", plane, [0, 100], [0.0, 0.0], [look[:2] for look in values])
    assert score_plots([only_plane], "w") == ()
