"""Scores on the items that training texts do not have, and their difference from the scores on all items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import Items, Score
from sentbed.statistics import EstimatedDifference, Source
from sentbed_report.statistics.levels import CONFIDENCE

from sentbed_audit.clean.overlap import SeenItems

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST_ITEMS = 2
"""Minimum number of clean items for a score."""


@attrs.frozen
class CleanScore:
    """A score on all items, and on the clean ones."""

    score: Score
    seen: SeenItems
    clean: Score | None
    """The score on clean items; None if there are fewer than two of them."""
    difference: float | None
    """Score on clean items minus that on all."""
    interval: tuple[float, float] | None
    """95 % confidence interval of the difference, paired by item; None for a statistic of a plugin."""


def clean_score(score: Score, seen: SeenItems) -> CleanScore:
    """Return a score on all items and on those that are clean.

    Raises:
        RunError: if the items cannot be used.
    """
    items = score.items
    if items is None:
        return CleanScore(score, seen, None, None, None)

    is_kept = _without_small_groups(items, seen.clean)
    if is_kept.sum() < FEWEST_ITEMS:
        return CleanScore(score, seen, None, None, None)

    kept = _select(items, is_kept)
    of_clean = kept.value()
    difference = of_clean - items.value()
    clean = attrs.evolve(score, value=of_clean, items=kept)
    if callable(items.statistic):
        return CleanScore(score, seen, clean, difference, None)

    estimate = paired_difference(items, is_kept, difference)
    return CleanScore(score, seen, clean, difference, estimate.interval(CONFIDENCE))


def _without_small_groups(items: Items, clean: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which clean items are scored: not a single one of a group, whose correlation would count as 0."""
    import numpy as np

    if items.groups is None or items.statistic == "mean":
        return clean
    counts = np.bincount(items.groups[clean], minlength=int(items.groups.max()) + 1)
    return clean & (counts[items.groups] >= FEWEST_ITEMS)


def _select(items: Items, kept: NDArray[np.bool_]) -> Items:
    """Return the kept items."""
    optional = {}
    for name in ("y", "groups", "clusters"):
        column = getattr(items, name)
        if column is not None:
            optional[name] = column[kept]
    return Items(
        items.statistic,
        items.x[kept],
        weighted=items.weighted,
        scale=items.scale,
        **optional,
    )


def paired_difference(
    items: Items, kept: NDArray[np.bool_], difference: float
) -> EstimatedDifference:
    """Return the difference of the score on the kept items from that on all, with its variance over items.

    A kept item affects both scores: its influence on the difference is the difference of its influences.
    """
    import numpy as np

    of_items = -items.influences()
    of_items[kept] += _select(items, kept).influences()
    if items.clusters is not None:
        _, cluster = np.unique(items.clusters, return_inverse=True)
        of_items = np.bincount(cluster, of_items).astype(np.float64)
    degrees = len(of_items) - 1
    variance = float(of_items @ of_items) * len(of_items) / max(degrees, 1)
    if not variance:
        return EstimatedDifference(difference, ())
    return EstimatedDifference(difference, (Source(variance, degrees),))
