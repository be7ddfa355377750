"""Resampling of a score's items: confidence intervals and comparisons of encoders.

`value` and `resample` take the `Items` that a score carries. A resample is a count of each item,
from which every statistic is computed (`weighted_statistics.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Items

from sentbed_report.statistics.weighted_statistics import (
    STATISTICS,
    members_of,
    name_of,
    statistic_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed_report.statistics.weighted_statistics import Floats

RESAMPLES = 1000
CONFIDENCE = 0.95

SIGNIFICANT = 0.05
"""P-value below which tables mark a difference."""

_BLOCK = 1 << 17
"""Maximum number of counts held at a time."""
_ROUNDING = 1e-12
"""Differences, before scaling, that count as zero: rounding of sums in another order."""


@attrs.frozen
class Comparison:
    """Comparison of two systems on the same items; all but `p_value` in the unit of the score."""

    a: float
    b: float
    difference: float
    """Difference b - a."""
    low: float
    """Bounds of the difference's interval, by paired bootstrap."""
    high: float
    p_value: float
    """Two-sided p-value."""


@attrs.frozen(eq=False)
class Resampled:
    """Score with its values on resampled items."""

    items: Items
    value: float
    draws: Floats
    """`(resamples,)`: of the same items as those of another score with as many items, its groups and seed."""

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the percentile interval (Efron, 1979)."""
        return _percentiles(self.draws, confidence)

    def compare(self, other: Resampled, confidence: float = CONFIDENCE) -> Comparison:
        """Return the comparison with `other`, resampled with the same seed, by paired bootstrap.

        The p-value is twice the share of resamples on the rarer side of 0, and so about 0.05 where the
        interval of 95 % ends at 0.

        Raises:
            RunError: where the two are not of the same items.
        """
        require_same(self.items, other.items)
        differences = other.draws - self.draws
        low, high = _percentiles(differences, confidence)
        rounding = _ROUNDING * abs(self.items.scale)
        rarer = min((differences <= rounding).sum(), (differences >= -rounding).sum())
        p_value = min(1.0, 2 * (int(rarer) + 1) / (len(differences) + 1))
        return Comparison(
            self.value, other.value, other.value - self.value, low, high, p_value
        )


def value(items: Items) -> float:
    """Return the score of the items.

    A correlation is 0 where a side is constant, as are Matthews' and F1 where nothing is to be found.

    Raises:
        RunError: where the items cannot be used.
    """
    import numpy as np

    require_usable(items)
    return float(statistic_of(items)(np.ones((len(items.x), 1)))[0])


def resample(items: Items, resamples: int = RESAMPLES, seed: int = 0) -> Resampled:
    """Draw the items anew, with replacement and within each group, and score each draw.

    Items of one cluster are drawn together.

    Raises:
        RunError: where the items cannot be used.
    """
    import numpy as np

    score = value(items)
    rng = np.random.default_rng(seed)
    statistic, groups = statistic_of(items), members_of(items)
    widths = _blocks(len(items.x), resamples)
    draws = [statistic(_draw(rng, groups, width, items.clusters)) for width in widths]
    return Resampled(items, score, np.concatenate(draws))


def _percentiles(draws: Floats, confidence: float) -> tuple[float, float]:
    import numpy as np

    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


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
