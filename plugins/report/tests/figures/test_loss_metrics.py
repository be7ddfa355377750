"""Metrics of the loss of a stage."""

from __future__ import annotations

import math

from drawn_figures import named_lines
from sentbed.protocols import StageCurve
from sentbed_report.figures.loss_metrics import metrics_plot


def test_the_metrics_of_the_loss_are_drawn_where_there_are_numbers() -> None:
    metrics = {"temperature": [1.0, 0.5], "accuracy": [math.nan, math.nan]}
    plot = metrics_plot(StageCurve("s", [1, 2], [0.0, 0.0], [], metrics=metrics), "m")
    assert plot is not None
    assert named_lines(plot) == {"temperature": [(1.0, 1.0), (2.0, 0.5)]}
    assert metrics_plot(StageCurve("s", [1], [0.0], []), "m") is None
