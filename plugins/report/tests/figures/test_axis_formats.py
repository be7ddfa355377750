"""Axes of figures: of steps and of numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from sentbed_report.figures.axis_formats import spans_powers, step_axis


@pytest.mark.parametrize(
    ("steps", "apart"),
    [((10, 20, 30, 40), 10), ((15, 30), 5), ((1, 24), 5), ((250, 3000), 1000)],
)
def test_steps_are_ticked_at_round_numbers(steps, apart):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    axes.plot(steps, steps)
    step_axis(axes)
    shown = []
    for tick in axes.get_xticks():
        if steps[0] <= tick <= steps[-1]:
            shown.append(tick)

    assert len(shown) >= 3
    assert {later - earlier for earlier, later in pairwise(shown)} == {apart}
    assert all(tick % apart == 0 for tick in shown)


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
def test_a_scale_is_logarithmic_where_numbers_span_powers(numbers, powers):
    assert spans_powers(numbers) is powers
