"""Scatters of a run."""

from __future__ import annotations

import re

import numpy as np
from sentbed.protocols import Scatter
from sentbed_report.figures.scatters import POINTS_PER_SCATTER, scatter_plots


def dots(svg):
    return sum(path.count("h0") for path in re.findall(r' d="([^"]*)"', svg))


def test_a_scatter_draws_each_of_its_points():
    rng = np.random.default_rng(0)
    points = Scatter("t", "x", "y", rng.uniform(size=700), rng.uniform(size=700))
    (plot,) = scatter_plots([("encoder", points)])
    assert dots(plot.element("f-")) == 700
    assert plot.caption == "700 points"


def test_a_scatter_of_thousands_is_cut_and_says_so():
    x = np.arange(5000.0)
    points = Scatter("t", "x", "y", x, x)
    plots = scatter_plots([("encoder@start", points), ("encoder", points)])
    assert [dots(plot.element("f-")) for plot in plots] == [POINTS_PER_SCATTER] * 2
    assert [plot.caption for plot in plots] == [
        "1,500 of 5,000 points, evenly chosen"
    ] * 2
