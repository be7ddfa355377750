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


def statistic_of(items: Items) -> OfCounts:
    """Return the score as a function of the counts."""
    import numpy as np

    groups = members_of(items)
    of = _any(items.statistic) if callable(items.statistic) else STATISTICS[items.statistic]
    parts = [
        of(items.x[members].astype(float), None if items.y is None else items.y[members].astype(float))
        for members in groups
    ]
    sizes = [len(members) if items.weighted else 1 for members in groups]

    def score(counts: Floats) -> Floats:
        values = [part(counts[members]) for part, members in zip(parts, groups, strict=True)]
        result: Floats = items.scale * np.average(values, axis=0, weights=sizes)
        return result

    return score


def _mean(x: Floats, y: Floats | None) -> OfCounts:
    return lambda counts: _ratio(x @ counts, counts.sum(axis=0))


def _pearson(x: Floats, y: Floats) -> OfCounts:
    import numpy as np

    # Centred first: sums of squares then lose no digits.
    x, y = x - x.mean(), y - y.mean()
    moments = np.stack([x, y, x * x, y * y, x * y])

    def score(counts: Floats) -> Floats:
        total = counts.sum(axis=0)
        sx, sy, sxx, syy, sxy = moments @ counts
        spreads = []
        for plain, square in ((sx, sxx), (sy, syy)):
            spread = square - plain * plain / total
            spreads.append(np.where(spread > 1e-12 * square, spread, 0))
        return _ratio(sxy - sx * sy / total, np.sqrt(spreads[0] * spreads[1]))

    return score


def _spearman(x: Floats, y: Floats) -> OfCounts:
    import numpy as np

    ranks = ranks_of(x), ranks_of(y)

    def score(counts: Floats) -> Floats:
        rx, ry = (rank(counts) for rank in ranks)
        weighted = rx * counts
        spread = np.einsum("nb,nb->b", weighted, rx) * np.einsum("nb,nb,nb->b", ry, ry, counts)
        return _ratio(np.einsum("nb,nb->b", weighted, ry), np.sqrt(spread))

    return score


def ranks_of(values: Floats) -> OfCounts:
    """Return a function of the counts that gives each item's rank, less the mean rank, `(n, resamples)`.

    Equal values share the mean of their ranks.
    """
    import numpy as np

    _, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))

    def rank(counts: Floats) -> Floats:
        ties = np.add.reduceat(counts[order], starts, axis=0)
        upto = np.cumsum(ties, axis=0)
        middle = upto - (ties - 1) / 2 - (upto[-1] + 1) / 2
        ranks: Floats = middle[place]
        return ranks

    return rank


def _matthews(x: Floats, y: Floats) -> OfCounts:
    """Return Matthews' correlation for two or more classes (Gorodkin, 2004)."""
    import numpy as np

    classes = np.unique([x, y])[:, None]
    right, gold, found = (x == y).astype(float), (x == classes).astype(float), (y == classes).astype(float)

    def score(counts: Floats) -> Floats:
        total = counts.sum(axis=0)
        of_gold, of_found = gold @ counts, found @ counts
        spread = (total**2 - (of_gold**2).sum(axis=0)) * (total**2 - (of_found**2).sum(axis=0))
        return _ratio((right @ counts) * total - (of_gold * of_found).sum(axis=0), np.sqrt(spread))

    return score


def _f1(x: Floats, y: Floats) -> OfCounts:
    """Return the F1 score of class 1."""
    both, either = ((x == 1) & (y == 1)).astype(float), (x == 1).astype(float) + (y == 1)
    return lambda counts: _ratio(2 * (both @ counts), either @ counts)


def _average_precision(x: Floats, y: Floats) -> OfCounts:
    """Return the mean precision at the items with x > 0, by falling y; equal values of y count together."""
    import numpy as np

    _, place = np.unique(-y, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    positive = (x > 0)[order, None]

    def score(counts: Floats) -> Floats:
        counts = counts[order]
        found = np.add.reduceat(counts * positive, starts, axis=0)
        seen = np.cumsum(np.add.reduceat(counts, starts, axis=0), axis=0)
        precision = _ratio(np.cumsum(found, axis=0), seen)
        return _ratio((precision * found).sum(axis=0), found.sum(axis=0))

    return score


def _v_measure(x: Floats, y: Floats) -> OfCounts:
    """Return the harmonic mean of homogeneity and completeness of clusters y.

    Rosenberg and Hirschberg, 2007. Both are 1 where there is one class, or one cluster.
    """
    import numpy as np

    def sums(*values: Floats) -> Floats:
        _, place = np.unique(np.stack(values), axis=1, return_inverse=True)
        place = place.reshape(-1)
        held: Floats = (place == np.arange(place.max() + 1)[:, None]).astype(float)
        return held

    of_classes, of_clusters, of_both = sums(x), sums(y), sums(x, y)

    def entropy(held: Floats, counts: Floats) -> Floats:
        shares = held @ counts / counts.sum(axis=0)
        logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
        found: Floats = -(shares * logs).sum(axis=0)
        return found

    def score(counts: Floats) -> Floats:
        classes, clusters = entropy(of_classes, counts), entropy(of_clusters, counts)
        shared = classes + clusters - entropy(of_both, counts)
        homogeneity = np.where(classes > 1e-12, _ratio(shared, classes), 1.0)
        completeness = np.where(clusters > 1e-12, _ratio(shared, clusters), 1.0)
        return np.maximum(0.0, _ratio(2 * homogeneity * completeness, homogeneity + completeness))

    return score


def _any(function: Callable[..., float]) -> Callable[[Floats, Floats | None], OfCounts]:
    """Return a plugin's statistic as one of the counts: it is given each item as often as it counts."""
    import numpy as np

    def of(x: Floats, y: Floats | None) -> OfCounts:
        def one(count: Floats) -> float:
            places = np.repeat(np.arange(len(x)), count.astype(int))
            return float(function(x[places]) if y is None else function(x[places], y[places]))

        return lambda counts: np.array([one(count) for count in counts.T])

    return of


def _ratio(above: Floats, below: Floats) -> Floats:
    """Return the quotient, 0 where it is not defined."""
    import numpy as np

    result: Floats = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return result


STATISTICS: dict[str, Callable[[Any, Any], OfCounts]] = {
    "mean": _mean,
    "pearson": _pearson,
    "spearman": _spearman,
    "matthews": _matthews,
    "f1": _f1,
    "average-precision": _average_precision,
    "v-measure": _v_measure,
}


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
    if module.partition(".")[0] not in {one.partition(".")[0] for one in modules}:
        raise RunError(
            f"the statistic `{name}` is of no plugin that is installed and loaded; install the plugin that "
            "gave the score"
        )
    try:
        found: Any = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise RunError(f"there is no statistic `{name}`: {error}; score again") from error
    if not inspect.isfunction(found):
        raise RunError(f"the statistic `{name}` is no function; score again")
    statistic: Callable[..., float] = found
    return statistic
