"""Drawing of points: filled or hollow, with or without a ring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sentbed_report.figures.colours import colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_points(  # noqa: PLR0913 - keywords
    axes: Axes,
    x: float | Sequence[float],
    y: float | Sequence[float],
    tone: str,
    label: str = "",
    *,
    marker: str = "o",
    size: float = 8,
    hollow: bool = False,
    ringed: bool = False,
    alpha: float = 1,
) -> None:
    """Draw points of one colour; `label` is their name for screen readers and legends.

    In all figures, a hollow point is degenerate or from before training, and a ringed point is the baseline.
    """
    edge, width = tone, 0.8
    if ringed:
        edge, width = colour("fg"), 1.6
    filled = "none" if hollow else "full"
    axes.plot(
        x,
        y,
        marker,
        color=tone,
        fillstyle=filled,
        markeredgecolor=edge,
        markeredgewidth=width,
        markersize=size,
        alpha=alpha,
        label=label or None,
    )
