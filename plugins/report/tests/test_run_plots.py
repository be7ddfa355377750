"""Parts of the plots of a run."""

from __future__ import annotations

from itertools import pairwise

import pytest
from sentbed_report.run_plots import step_axis


@pytest.mark.parametrize(
    ("steps", "apart"), [((10, 20, 30, 40), 10), ((15, 30), 5), ((1, 24), 5), ((250, 3000), 1000)]
)
def test_steps_are_ticked_at_round_numbers(steps: tuple[int, ...], apart: int) -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    axes.plot(steps, steps)
    step_axis(axes)
    shown = [tick for tick in axes.get_xticks() if steps[0] <= tick <= steps[-1]]
    assert len(shown) >= 3
    assert {later - earlier for earlier, later in pairwise(shown)} == {apart}
    assert all(tick % apart == 0 for tick in shown)
