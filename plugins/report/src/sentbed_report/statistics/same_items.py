"""Check that two scores were computed from the same items, so that they can be compared item by item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sentbed.errors import RunError
from sentbed.protocols import Items, Score

if TYPE_CHECKING:
    from numpy.typing import NDArray


def require_same_items(scores: Sequence[Score], others: Sequence[Score]) -> None:
    """Raise `RunError` if two means over tasks cannot be paired item by item; scores without items can."""
    reason = ""
    if len(scores) != len(others):
        reason = "one is a mean over other tasks than the other"
    for score, other in zip(scores, others, strict=False):
        if score.items is not None and other.items is not None:
            reason = reason or why_not_same(score.items, other.items)
    if reason:
        raise RunError(
            f"the two scores cannot be paired: {reason}; score both on the same data"
        )


def why_not_same(a: Items, b: Items) -> str:
    """Return why two scores cannot be compared item by item; empty if they can."""
    if len(a.x) != len(b.x):
        return f"one was scored on {len(a.x):,} items, the other on {len(b.x):,}"
    if (a.statistic, a.scale, a.weighted) != (b.statistic, b.scale, b.weighted):
        names = f"one is a `{a.statistic}`, the other a `{b.statistic}`"
        return f"{names} or of another scale or weighting"
    # For a mean, `x` has not the gold values but the value of each item, which differs between encoders.
    if a.statistic != "mean" and _differ(a.x, b.x):
        return "their gold values differ, or stand in another order"
    if _differ(a.groups, b.groups):
        return "their items are grouped in different ways"
    if _differ(a.clusters, b.clusters):
        return "their items are of different clusters, or stand in another order"
    return ""


def _differ(column: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    import numpy as np

    if column is None or other is None:
        return column is not other
    return not np.array_equal(column, other)
