"""Resampling of a score's items: confidence intervals and comparisons of encoders.

`value`, `interval` and `compare` take the `Items` that a score carries. A resample is a count of each item,
from which every statistic is computed (`weighted_statistics.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Items

from sentbed_report.weighted_statistics import STATISTICS, members_of, name_of, ranks_of, statistic_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed_report.weighted_statistics import Floats

Method: TypeAlias = Literal["bootstrap", "randomisation"]
METHODS: tuple[Method, ...] = get_args(Method)

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
        """Return the percentile interval."""
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
        slack = _ROUNDING * abs(self.items.scale)
        rarer = min(int((differences <= slack).sum()), int((differences >= -slack).sum()))
        p_value = min(1.0, 2 * (rarer + 1) / (len(differences) + 1))
        interval = _percentiles(differences, confidence)
        return Comparison(self.value, other.value, other.value - self.value, *interval, p_value)


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

    found = value(items)
    rng = np.random.default_rng(seed)
    statistic, groups = statistic_of(items), members_of(items)
    clusters = items.clusters
    drawn = [statistic(_draw(rng, groups, width, clusters)) for width in _blocks(len(items.x), resamples)]
    return Resampled(items, found, np.concatenate(drawn))


def interval(
    items: Items, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile bootstrap interval (Efron, 1979) of a score; see `resample`."""
    return resample(items, resamples, seed).interval(confidence)


def compare(
    a: Items,
    b: Items,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    method: Method = "bootstrap",
) -> Comparison:
    """Compare two systems scored on the same items.

    The interval is that of the paired bootstrap. So is the p-value of `bootstrap`; that of `randomisation`
    (Noreen, 1989) is the share of exchanges, item by item at random, after which the two differ at least as
    much, as (k + 1) / (n + 1). Exchanged are the values, for `spearman` and `average-precision` their ranks
    and for `pearson` their standard scores: cosines of two encoders are not on one scale. Clusters, and what
    a plugin's function takes, cannot be exchanged.

    Raises:
        RunError: where the two are not of the same items, or the items cannot be used or exchanged.
    """
    if method == "randomisation" and (callable(a.statistic) or a.statistic == "v-measure"):
        raise RunError(
            f"predictions of two systems cannot be exchanged under the statistic `{name_of(a)}`; "
            'use `method = "bootstrap"`'
        )
    paired = resample(a, resamples, seed)
    result = paired.compare(resample(b, resamples, seed), confidence)
    if method == "randomisation":
        result = attrs.evolve(result, p_value=_randomised(a, b, result.difference, resamples, seed))
    return result


def _percentiles(draws: Floats, confidence: float) -> tuple[float, float]:
    import numpy as np

    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _randomised(a: Items, b: Items, difference: float, resamples: int, seed: int) -> float:
    import numpy as np

    rng = np.random.default_rng(seed)
    # Items of both systems stacked: of each pair, one counts for a and the other for b.
    groups = None if a.groups is None else np.tile(a.groups, 2)
    clusters = None if a.clusters is None else np.tile(a.clusters, 2)
    if a.y is None or b.y is None:
        both = attrs.evolve(a, x=np.concatenate([a.x, b.x]), groups=groups, clusters=clusters)
    else:
        y = np.concatenate([_exchangeable(a), _exchangeable(b)])
        both = attrs.evolve(a, x=np.tile(a.x, 2), y=y, groups=groups, clusters=clusters)
    statistic = statistic_of(both)
    threshold = abs(difference) - _ROUNDING * abs(a.scale)
    found = 0
    # Items of one cluster are exchanged together.
    exchanged = np.arange(len(a.x)) if a.clusters is None else a.clusters
    exchanged, exchanged_with = np.unique(exchanged, return_inverse=True)
    for width in _blocks(2 * len(a.x), resamples):
        stays = rng.integers(0, 2, (len(exchanged), width)).astype(float)[exchanged_with]
        first = statistic(np.concatenate([stays, 1 - stays]))
        second = statistic(np.concatenate([1 - stays, stays]))
        found += int((np.abs(second - first) >= threshold).sum())
    return (found + 1) / (resamples + 1)


def _exchangeable(items: Items) -> Floats:
    """Return y on a scale common to two systems, within each group."""
    import numpy as np

    assert items.y is not None
    result = np.array(items.y, float)
    for members in members_of(items):
        part = result[members]
        if items.statistic in ("spearman", "average-precision"):
            result[members] = ranks_of(part)(np.ones((len(part), 1)))[:, 0]
        elif items.statistic == "pearson" and np.ptp(part) > 0:
            result[members] = (part - part.mean()) / part.std()
    return result


# --- draws -------------------------------------------------------------------------------------------------


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


# --- what cannot be resampled ------------------------------------------------------------------------------


def require_usable(items: Items) -> None:
    """Raise `RunError` if items cannot be scored: unknown statistic, columns of unlike length, not finite."""
    import numpy as np

    if callable(items.statistic) and not name_of(items).partition(":")[2].isidentifier():
        raise RunError(
            f"the statistic `{name_of(items)}` is no function of a module; define it at the top of one, "
            "where `sentbed compare` can find it again"
        )
    if not callable(items.statistic) and items.statistic not in STATISTICS:
        known = ", ".join(f"`{name}`" for name in sorted(STATISTICS))
        raise RunError(f"there is no statistic `{items.statistic}`; choose one of {known}")
    if not callable(items.statistic) and (items.y is None) != (items.statistic == "mean"):
        has = "lack" if items.y is None else "have"
        raise RunError(f"items of `{items.statistic}` {has} `y`; give it, except to `mean`")
    columns = {"x": items.x, "y": items.y, "groups": items.groups, "clusters": items.clusters}
    sizes = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(sizes.values())) > 1 or not len(items.x):
        listed = ", ".join(f"{size} of `{name}`" for name, size in sizes.items())
        raise RunError(f"found {listed}, expected as many of each and at least one")
    for name, column in columns.items():
        if column is not None and not np.isfinite(column).all():
            raise RunError(f"`{name}` of the items has NaN or infinite values; score the encoder again")


def require_same(a: Items, b: Items) -> None:
    """Raise `RunError` if two scores were not computed from the same items in the same way."""
    import numpy as np

    def differ(one: Any, other: Any) -> bool:
        return (one is None) != (other is None) or (one is not None and not np.array_equal(one, other))

    if len(a.x) != len(b.x):
        found = f"one was scored on {len(a.x):,} items, the other on {len(b.x):,}"
    elif (a.statistic, a.scale, a.weighted) != (b.statistic, b.scale, b.weighted):
        found = f"one is a `{name_of(a)}`, the other a `{name_of(b)}` or of another scale or weighting"
    elif a.statistic != "mean" and differ(a.x, b.x):
        found = "their gold values differ, or stand in another order"
    elif differ(a.groups, b.groups):
        found = "their items are grouped in different ways"
    elif differ(a.clusters, b.clusters):
        found = "their items are of different clusters, or stand in another order"
    else:
        return
    raise RunError(f"the two scores cannot be paired: {found}; score both on the same data")
