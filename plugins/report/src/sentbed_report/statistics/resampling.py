"""The score of `Items`, and its resampling: how much it varies where the statistic is a plugin's function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Items

from sentbed_report.statistics.weighted_statistics import (
    STATISTICS,
    group_weights,
    members_of,
    name_of,
    statistic_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed_report.statistics.weighted_statistics import Floats

CONFIDENCE = 0.95

SIGNIFICANT = 0.05
"""P-value below which tables mark a difference."""

_BLOCK = 1 << 17
"""Maximum number of counts held at a time."""


def value(items: Items) -> float:
    """Return the score of the items; see `statistic_of`.

    Raises:
        RunError: where the items cannot be used.
    """
    require_usable(items)
    return statistic_of(items, group_weights(items))


def resample(items: Items, resamples: int, seed: int = 0) -> Floats:
    """Draw the items anew, with replacement and within each group, and return the score of each draw.

    Items of one cluster are drawn together. `(resamples,)`.

    Raises:
        RunError: where the items cannot be used.
    """
    import numpy as np

    require_usable(items)
    rng = np.random.default_rng(seed)
    groups, weights = members_of(items), group_weights(items)
    draws = []
    for width in _blocks(len(items.x), resamples):
        counts = _draw(rng, groups, width, items.clusters).astype(int)
        for count in counts.T:
            draws.append(statistic_of(_drawn(items, count), weights))
    return np.array(draws)


def _drawn(items: Items, counts: NDArray[np.int64]) -> Items:
    """Return items, each as often as it was drawn."""
    import numpy as np

    y, groups = items.y, items.groups
    if y is not None:
        y = np.repeat(y, counts)
    if groups is not None:
        groups = np.repeat(groups, counts)
    return attrs.evolve(items, x=np.repeat(items.x, counts), y=y, groups=groups)


def _blocks(count: int, resamples: int) -> Iterator[int]:
    """Yield how many resamples of `count` items to hold at a time."""
    size = max(1, _BLOCK // count)
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


def _draw(
    rng: np.random.Generator,
    groups: list[NDArray[np.int64]],
    width: int,
    clusters: NDArray[np.int64] | None = None,
) -> Floats:
    """Return the number of times each item was drawn, `(n, width)`."""
    import numpy as np

    counts = np.empty((sum(map(len, groups)), width))
    for members in groups:
        cluster_of_item = np.arange(len(members))
        if clusters is not None:
            _, cluster_of_item = np.unique(clusters[members], return_inverse=True)
        size = int(cluster_of_item.max()) + 1
        places = rng.integers(0, size, (size, width)) * width + np.arange(width)
        drawn = np.bincount(places.ravel(), minlength=size * width).reshape(size, width)
        counts[members] = drawn[cluster_of_item]
    return counts


def require_usable(items: Items) -> None:
    """Raise `RunError` if items cannot be scored: unknown statistic, columns of unlike length, not finite."""
    import numpy as np

    name = name_of(items)
    if callable(items.statistic):
        if not name.partition(":")[2].isidentifier():
            raise RunError(
                f"the statistic `{name}` is no function of a module; define it at the top of one, "
                "where `sentbed compare` can find it again"
            )
    elif name not in STATISTICS:
        names = ", ".join(f"`{statistic}`" for statistic in sorted(STATISTICS))
        raise RunError(f"there is no statistic `{name}`; choose one of {names}")
    elif (items.y is None) != (name == "mean"):
        has = "lack" if items.y is None else "have"
        raise RunError(f"items of `{name}` {has} `y`; give it, except to `mean`")

    columns = {
        "x": items.x,
        "y": items.y,
        "groups": items.groups,
        "clusters": items.clusters,
    }
    present = {name: column for name, column in columns.items() if column is not None}
    if len(set(map(len, present.values()))) > 1 or not len(items.x):
        sizes = ", ".join(
            f"{len(column)} of `{name}`" for name, column in present.items()
        )
        raise RunError(f"found {sizes}, expected as many of each and at least one")
    for name, column in present.items():
        if not np.isfinite(column).all():
            raise RunError(
                f"`{name}` of the items has NaN or infinite values; score the encoder again"
            )


def require_same(a: Items, b: Items) -> None:
    """Raise `RunError` if two scores were not computed from the same items in the same way."""
    if reason := _unlike(a, b):
        raise RunError(
            f"the two scores cannot be paired: {reason}; score both on the same data"
        )


def _unlike(a: Items, b: Items) -> str:
    """Return why two scores cannot be paired; empty if they can."""
    if len(a.x) != len(b.x):
        return f"one was scored on {len(a.x):,} items, the other on {len(b.x):,}"
    if (a.statistic, a.scale, a.weighted) != (b.statistic, b.scale, b.weighted):
        return f"one is a `{name_of(a)}`, the other a `{name_of(b)}` or of another scale or weighting"
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
