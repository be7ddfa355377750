"""Statistics as functions of the items' counts.

Ranks with ties follow from the counts' cumulative sum over the sorted values, so that a thousand resampled
Spearman correlations need one sort.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from sentbed.errors import RunError
from sentbed.protocols import Items

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    OfCounts: TypeAlias = Callable[[Floats], Floats]
    """Counts `(n, resamples)` -> the statistic of each resample, `(resamples,)`."""


def members_of(items: Items) -> list[NDArray[np.int64]]:
    """Return the indices of each group's items."""
    import numpy as np

    if items.groups is None:
        return [np.arange(len(items.x))]
    return [np.flatnonzero(items.groups == group) for group in np.unique(items.groups)]


def columns_of(
    items: Items, members: NDArray[np.int64]
) -> tuple[Floats, Floats | None]:
    """Return x and y of some of the items."""
    x = items.x[members].astype(float)
    if items.y is None:
        return x, None
    return x, items.y[members].astype(float)


def group_weights(items: Items) -> list[int]:
    """Return the weight of each group in the score, relative to their sum."""
    groups = members_of(items)
    return [len(members) for members in groups] if items.weighted else [1] * len(groups)


def statistic_of(items: Items) -> OfCounts:
    """Return the score as a function of the counts."""
    import numpy as np

    statistic = items.statistic
    of_columns = (
        _of_function(statistic) if callable(statistic) else STATISTICS[statistic]
    )
    groups = members_of(items)
    of_groups = [of_columns(*columns_of(items, members)) for members in groups]
    weights = group_weights(items)

    def score(counts: Floats) -> Floats:
        values = [
            of_group(counts[members])
            for of_group, members in zip(of_groups, groups, strict=True)
        ]
        mean: Floats = np.average(values, axis=0, weights=weights)
        return items.scale * mean

    return score


def _mean(x: Floats, y: Floats | None) -> OfCounts:
    return lambda counts: _ratio(x @ counts, counts.sum(axis=0))


def _pearson(x: Floats, y: Floats) -> OfCounts:
    import numpy as np

    # Centred first: sums of squares then lose no digits.
    x, y = x - x.mean(), y - y.mean()
    moments = np.stack([x, y, x * x, y * y, x * y])

    def spread(plain: Floats, square: Floats, total: Floats) -> Floats:
        variation = square - plain * plain / total
        return np.where(variation > 1e-12 * square, variation, 0)

    def score(counts: Floats) -> Floats:
        total = counts.sum(axis=0)
        sx, sy, sxx, syy, sxy = moments @ counts
        return _ratio(
            sxy - sx * sy / total,
            np.sqrt(spread(sx, sxx, total) * spread(sy, syy, total)),
        )

    return score


def _spearman(x: Floats, y: Floats) -> OfCounts:
    import numpy as np

    ranks_of_x, ranks_of_y = ranks_of(x), ranks_of(y)

    def score(counts: Floats) -> Floats:
        rx, ry = ranks_of_x(counts), ranks_of_y(counts)
        covariance = (counts * rx * ry).sum(axis=0)
        spread = (counts * rx * rx).sum(axis=0) * (counts * ry * ry).sum(axis=0)
        return _ratio(covariance, np.sqrt(spread))

    return score


def by_value(values: Floats) -> tuple[NDArray[np.int64], OfCounts]:
    """Return the place of each item's value among the distinct values, and how to add up counts by value.

    The places are ascending; the sums are `(values, resamples)`.
    """
    import numpy as np

    _, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))

    def total(counts: Floats) -> Floats:
        return np.add.reduceat(counts[order], starts, axis=0)

    return place, total


def ranks_of(values: Floats) -> OfCounts:
    """Return a function of the counts that gives each item's rank, less the mean rank, `(n, resamples)`.

    Equal values share the mean of their ranks.
    """
    import numpy as np

    place, total = by_value(values)

    def rank(counts: Floats) -> Floats:
        ties = total(counts)
        upto = np.cumsum(ties, axis=0)
        ranks: Floats = upto - (ties - 1) / 2 - (upto[-1] + 1) / 2
        return ranks[place]

    return rank


def _matthews(x: Floats, y: Floats) -> OfCounts:
    """Return Matthews' correlation for two or more classes (Gorodkin, 2004)."""
    import numpy as np

    classes = np.unique([x, y])[:, None]
    right = (x == y).astype(float)
    gold = (x == classes).astype(float)
    predicted = (y == classes).astype(float)

    def score(counts: Floats) -> Floats:
        total = counts.sum(axis=0)
        of_gold, of_predicted = gold @ counts, predicted @ counts
        spread = (total**2 - (of_gold**2).sum(axis=0)) * (
            total**2 - (of_predicted**2).sum(axis=0)
        )
        return _ratio(
            (right @ counts) * total - (of_gold * of_predicted).sum(axis=0),
            np.sqrt(spread),
        )

    return score


def _f1(x: Floats, y: Floats) -> OfCounts:
    """Return the F1 score of class 1."""
    both = ((x == 1) & (y == 1)).astype(float)
    either = (x == 1).astype(float) + (y == 1)
    return lambda counts: _ratio(2 * (both @ counts), either @ counts)


def _average_precision(x: Floats, y: Floats) -> OfCounts:
    """Return the mean precision at the items with x > 0, by falling y; equal values of y count together."""
    import numpy as np

    _, total = by_value(-y)
    positive = (x > 0)[:, None]

    def score(counts: Floats) -> Floats:
        positives = total(counts * positive)
        precision = _ratio(
            np.cumsum(positives, axis=0), np.cumsum(total(counts), axis=0)
        )
        return _ratio((precision * positives).sum(axis=0), positives.sum(axis=0))

    return score


def _v_measure(x: Floats, y: Floats) -> OfCounts:
    """Return the harmonic mean of homogeneity and completeness of clusters y.

    Rosenberg and Hirschberg, 2007. Both are 1 where there is one class, or one cluster.
    """
    import numpy as np

    def entropy_of(*values: Floats) -> OfCounts:
        _, place = np.unique(np.stack(values), axis=1, return_inverse=True)
        place = place.reshape(-1)
        members = (place == np.arange(place.max() + 1)[:, None]).astype(float)

        def entropy(counts: Floats) -> Floats:
            shares: Floats = members @ counts / counts.sum(axis=0)
            logarithms = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
            total: Floats = -(shares * logarithms).sum(axis=0)
            return total

        return entropy

    entropy_of_classes, entropy_of_clusters, entropy_of_both = (
        entropy_of(x),
        entropy_of(y),
        entropy_of(x, y),
    )

    def score(counts: Floats) -> Floats:
        classes, clusters = entropy_of_classes(counts), entropy_of_clusters(counts)
        shared = classes + clusters - entropy_of_both(counts)
        homogeneity = np.where(classes > 1e-12, _ratio(shared, classes), 1.0)
        completeness = np.where(clusters > 1e-12, _ratio(shared, clusters), 1.0)
        mean: Floats = _ratio(
            2 * homogeneity * completeness, homogeneity + completeness
        )
        return mean.clip(0.0)

    return score


def _of_function(
    function: Callable[..., float],
) -> Callable[[Floats, Floats | None], OfCounts]:
    """Return a plugin's statistic as one of the counts: it is given each item as often as it counts."""
    import numpy as np

    def of_columns(x: Floats, y: Floats | None) -> OfCounts:
        columns = [x] if y is None else [x, y]

        def score_of(count: NDArray[np.int64]) -> float:
            return float(function(*(np.repeat(column, count) for column in columns)))

        return lambda counts: np.array(
            [score_of(count) for count in counts.T.astype(int)]
        )

    return of_columns


def _ratio(above: Floats, below: Floats) -> Floats:
    """Return the quotient, 0 where it is not defined."""
    import numpy as np

    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


STATISTICS: dict[str, Callable[[Any, Any], OfCounts]] = {
    "mean": _mean,
    "pearson": _pearson,
    "spearman": _spearman,
    "matthews": _matthews,
    "f1": _f1,
    "average-precision": _average_precision,
    "v-measure": _v_measure,
}

_RANGES = {
    "pearson": (-1.0, 1.0),
    "spearman": (-1.0, 1.0),
    "matthews": (-1.0, 1.0),
    "f1": (0.0, 1.0),
    "average-precision": (0.0, 1.0),
    "v-measure": (0.0, 1.0),
}
"""Statistic -> its least and its largest value."""


def range_of(items: Items) -> tuple[float, float]:
    """Return the least and the largest value that the score can have; infinite where they are not known.

    A mean of items that are 0 or 1, such as right or wrong, is a share.
    """
    import numpy as np

    low, high = -np.inf, np.inf
    if isinstance(items.statistic, str):
        low, high = _RANGES.get(items.statistic, (low, high))
    if items.statistic == "mean" and np.isin(items.x, (0, 1)).all():
        low, high = 0.0, 1.0
    ends = items.scale * low, items.scale * high
    return min(ends), max(ends)


def name_of(items: Items) -> str:
    """Return the name of the statistic; that of a plugin's function is `MODULE:FUNCTION`."""
    if not callable(items.statistic):
        return items.statistic
    # An object that can be called has no name of its own.
    name = getattr(items.statistic, "__qualname__", repr(items.statistic))
    return f"{items.statistic.__module__}:{name}"


def function_named(name: str, modules: Iterable[str]) -> str | Callable[..., float]:
    """Return what `name_of` has named; a function only of a package in `modules`, those of loaded plugins.

    Raises:
        RunError: if it is of no such package, or is not there.
    """
    module, _, function = name.partition(":")
    if not function:
        return name
    packages = {plugin.partition(".")[0] for plugin in modules}
    if module.partition(".")[0] not in packages:
        raise RunError(
            f"the statistic `{name}` is of no plugin that is installed and loaded; install the plugin that "
            "gave the score"
        )
    try:
        statistic: Callable[..., float] = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise RunError(
            f"there is no statistic `{name}`: {error}; score again"
        ) from error
    if not inspect.isfunction(statistic):
        raise RunError(f"the statistic `{name}` is no function; score again")
    return statistic
