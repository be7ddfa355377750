"""Formatting of matplotlib axes: steps, names, numbers, logarithmic scales."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from sentbed_report.figures.labels import label_text, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_TICKS = 8
"""Maximum number of labels along an axis; more labels would overlap."""


def step_axis(axes: Axes) -> None:
    """Format the horizontal axis for optimiser steps."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("step")
    # By default, ticks may be at multiples of 3, 6 or 15, where nothing was measured.
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter("{x:,.0f}")


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label the positions 0, 1, 2 ... of the vertical axis with names; 0 is at the top."""
    axes.set_yticks(range(len(names)), [short_name(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def label_numbers(
    axes: Axes,
    numbers: Sequence[float],
    labels: Sequence[str],
) -> None:
    """Put ticks with these labels at the numbers on the horizontal axis, unless there are more than `_TICKS`.

    The axis is logarithmic if `spans_powers(numbers)`.
    """
    from matplotlib.ticker import NullLocator

    if spans_powers(numbers):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if len(numbers) <= _TICKS:
        axes.set_xticks(numbers, [label_text(label, 12) for label in labels])


def plain_logarithms(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers.

    By default, matplotlib labels it with mathematical markup, which SVG text cannot show.
    """
    from matplotlib.ticker import NullLocator

    axis.set_major_formatter("{x:,g}")
    axis.set_minor_locator(NullLocator())


def spans_powers(numbers: Sequence[float]) -> bool:
    """Whether numbers are better shown on a logarithmic scale.

    All of them must be positive. Also, the largest must be at least 20 times the smallest, or each of three or
    more numbers must be about the same multiple, at least 1.9, of the number before it.
    """
    ordered = sorted(set(numbers))
    if len(ordered) < 2 or ordered[0] <= 0:
        return False
    if ordered[-1] / ordered[0] >= 20:
        return True

    ratios = [larger / smaller for smaller, larger in pairwise(ordered)]
    return len(ratios) > 1 and min(ratios) >= 1.9 and max(ratios) <= min(ratios) * 1.1
