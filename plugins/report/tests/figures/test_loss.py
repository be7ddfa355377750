"""The training loss of a stage."""

from __future__ import annotations

import math
import re

from drawn_figures import named_lines
from sentbed.protocols import StageCurve
from sentbed_report.figures.loss import loss_plot


def test_a_spike_in_a_long_curve_is_drawn() -> None:
    def highest(losses: list[float]) -> int:
        plot = loss_plot(StageCurve("s", list(range(len(losses))), losses, []), "l")
        assert plot is not None
        return len(
            {y for d in re.findall(r' d="(M[^"]*)"', plot.svg) for y in re.findall(r"[ML] \S+ (\S+)", d)}
        )

    flat = [1.0] * 20_000
    spike = [*flat[:777], 9.0, *flat[778:]]
    assert highest(spike) > highest(flat)


def test_losses_that_are_not_finite_are_counted_not_drawn() -> None:
    plot = loss_plot(StageCurve("s", [1, 2, 3], [1.0, math.nan, math.inf], [1.0, 1.0, 1.0]), "l")
    assert plot is not None
    assert "2 logged losses not finite, not drawn." in plot.caption


def test_a_single_step_is_drawn() -> None:
    assert loss_plot(StageCurve("s", [1], [0.0], [0.0]), "l") is not None


def test_a_plot_says_what_it_shows_and_keeps_its_text() -> None:
    steps = list(range(1, 41))
    losses = [3 / step + 0.1 * (step % 3) for step in steps]
    plot = loss_plot(StageCurve("nli", steps, losses, [1e-5] * 40), "l")
    assert plot is not None
    assert re.search(r'aria-label="Training loss. loss. loss: from 3.1\S* at 1 to \S+ at 40\.', plot.svg)
    assert ">step</text>" in plot.svg
    assert "xmlns" not in plot.svg
    assert "<style" not in plot.svg


def test_the_smoothed_loss_is_a_centred_mean_over_as_many_steps_on_both_sides() -> None:
    losses = [float(step**2 % 97) for step in range(150)]
    plot = loss_plot(StageCurve("s", list(range(150)), losses, []), "l")
    assert plot is not None
    for step, value in named_lines(plot)["loss"]:
        near = int(min(3, step, 149 - step))
        window = losses[int(step) - near : int(step) + near + 1]
        assert math.isclose(value, sum(window) / len(window), rel_tol=1e-9, abs_tol=1e-9)
