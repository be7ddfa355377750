"""Scores on clean items, which do not occur in training texts, and their differences from scores on all items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import Items, Score
from sentbed_report.statistics.difference import Difference, Source

from sentbed_audit.clean.overlap import SeenItems

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST_ITEMS = 2
"""Minimum number of clean items for a score.

In a score with groups, the clean items of a group are left out if there are fewer of them.
"""


@attrs.frozen
class CleanScore:
    """A score on all items, and the same score on the clean items only."""

    score: Score
    seen: SeenItems
    clean: Score | None
    """The score on clean items; None if too few clean items count, or if the score has no items."""
    difference: float | None
    """Score on clean items minus score on all items; None without a score on clean items."""
    interval: tuple[float, float] | None
    """95 % confidence interval of the difference, paired by item; None without a difference."""

    @property
    def value_on_clean(self) -> float | None:
        """The score on clean items as a number; None without one."""
        return None if self.clean is None else self.clean.value


def clean_score(score: Score, seen: SeenItems) -> CleanScore:
    """Return a score on all items and on clean items; `seen` says which items are clean.

    Raises:
        RunError: if the score cannot be computed from its items.
    """
    from sentbed_common import item_score

    items = score.items
    if items is None:
        return CleanScore(score, seen, None, None, None)

    is_kept = _without_small_groups(items, seen.clean)
    if is_kept.sum() < FEWEST_ITEMS:
        return CleanScore(score, seen, None, None, None)

    clean_items = _select(items, is_kept)
    value_on_clean = item_score(clean_items)
    difference = value_on_clean - item_score(items)
    clean = attrs.evolve(score, value=value_on_clean, items=clean_items)
    estimate = paired_difference(items, is_kept, difference)
    return CleanScore(score, seen, clean, difference, estimate.interval())


def _without_small_groups(items: Items, clean: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which clean items are scored, `(items,)`.

    The only clean item of a group is not scored: a correlation over one item would count as 0.
    """
    import numpy as np

    if items.groups is None or items.statistic == "mean":
        return clean
    counts = np.bincount(items.groups[clean], minlength=int(items.groups.max()) + 1)
    return clean & (counts[items.groups] >= FEWEST_ITEMS)


def _select(items: Items, kept: NDArray[np.bool_]) -> Items:
    """Return the items for which `kept` is true."""
    columns = {}
    for name in ("x", "y", "groups", "clusters"):
        column = getattr(items, name)
        if column is not None:
            columns[name] = column[kept]
    return attrs.evolve(items, **columns)


def paired_difference(
    items: Items,
    kept: NDArray[np.bool_],
    difference: float,
) -> Difference:
    """Return `difference`, the score on kept items minus the score on all items, with its variance over items.

    A kept item influences both scores. Its influence on the difference is the difference of its influences on
    them.
    """
    import numpy as np
    from sentbed_common import item_influences

    influences = -item_influences(items)
    influences[kept] += item_influences(_select(items, kept))
    if items.clusters is not None:
        _, cluster = np.unique(items.clusters, return_inverse=True)
        influences = np.bincount(cluster, influences).astype(np.float64)

    degrees = len(influences) - 1
    variance = float(influences @ influences) * len(influences) / max(degrees, 1)
    return Difference(difference, {"items": Source(variance, degrees)})
