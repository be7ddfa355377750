"""Influence values: how much each item moves the statistic of a score, for its variance over items.

The influence of an item is the derivative of the statistic with respect to the item's count, at the data: the
infinitesimal jackknife (Jaeckel, 1972; Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter
21). The sum of its squares over independent items is the variance of the statistic. For a mean it is that of
the t-test; for Spearman's correlation of few items it is nearer to the true variance than that of resamples,
where an item that is drawn twice ties with itself.

All values of one group sum to 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed.protocols import Items

from sentbed_report.weighted_statistics import STATISTICS, members_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed_report.weighted_statistics import Floats

_STEP = 1e-4
"""Change of a count for a numerical derivative; counts are at least 1."""


def has_influences(items: Items) -> bool:
    """Whether the statistic has a derivative: all but functions of plugins, of which nothing is known."""
    return not callable(items.statistic)


def influences(items: Items) -> Floats:
    """Return the influence of each item on the score, `(n,)`, in the unit of the score.

    Zero where the statistic is not defined, as a correlation with a constant. Not for functions of plugins.
    """
    import numpy as np

    found = np.zeros(len(items.x))
    groups = members_of(items)
    for members in groups:
        weight = len(members) / len(items.x) if items.weighted else 1 / len(groups)
        x = items.x[members].astype(float)
        if items.y is None:
            of_group = (x - x.mean()) / len(x)
        else:
            of_group = _of_pairs(str(items.statistic), x, items.y[members].astype(float))
        found[members] = items.scale * weight * of_group
    return found


def _of_pairs(statistic: str, x: Floats, y: Floats) -> Floats:
    if statistic == "pearson":
        return _pearson(x, y)
    if statistic == "spearman":
        return _spearman(x, y)
    if statistic == "average-precision":
        return _average_precision(x, y)
    return _of_counts(statistic, x, y)


def _pearson(x: Floats, y: Floats) -> Floats:
    x, y = x - x.mean(), y - y.mean()
    return _correlation_influences(x, y, x * y, x * x, y * y)


def _spearman(x: Floats, y: Floats) -> Floats:
    """Return the influences on Pearson's correlation of the ranks, which change with the counts, too."""
    first, second = _centred_ranks(x), _centred_ranks(y)
    # Another item of a value raises the rank of all higher values by half, and lowers that of lower ones.
    product = first * second + _shift(x, second) + _shift(y, first)
    return _correlation_influences(
        first,
        second,
        product,
        first * first + 2 * _shift(x, first),
        second * second + 2 * _shift(y, second),
    )


def _correlation_influences(
    first: Floats, second: Floats, product: Floats, square: Floats, other_square: Floats
) -> Floats:
    """Return the influences on sum(first second) / sqrt(sum(first²) sum(second²)) from those on the sums."""
    import numpy as np

    above, spread, other_spread = first @ second, first @ first, second @ second
    if spread <= 0 or other_spread <= 0:
        return np.zeros_like(first)
    correlation = above / np.sqrt(spread * other_spread)
    change: Floats = product / np.sqrt(spread * other_spread)
    change -= correlation / 2 * (square / spread + other_square / other_spread)
    return change


def _centred_ranks(values: Floats) -> Floats:
    from scipy import stats

    ranks: Floats = stats.rankdata(values) - (len(values) + 1) / 2
    return ranks


def _shift(values: Floats, weights: Floats) -> Floats:
    """Return for each item half the weights of the items of higher values, less half those of lower ones."""
    import numpy as np

    _, place = np.unique(values, return_inverse=True)
    of_value = np.bincount(place, weights)
    upto = np.cumsum(of_value)
    lower = upto - of_value
    higher = upto[-1] - upto
    shift: Floats = ((higher - lower) / 2)[place]
    return shift


def _average_precision(x: Floats, y: Floats) -> Floats:
    """Return the influences on the sum over values of y of precision times positives, over all positives."""
    import numpy as np

    positive = (x > 0).astype(float)
    if not positive.any():
        return np.zeros_like(x)
    _, place = np.unique(-y, return_inverse=True)
    found, seen = np.bincount(place, positive), np.bincount(place).astype(float)
    upto, ranked = np.cumsum(found), np.cumsum(seen)
    total = positive.sum()
    score = (found * upto / ranked).sum() / total
    # What an item adds to its own value, and to all that come after it.
    later_positives = np.cumsum((found / ranked)[::-1])[::-1]
    later_items = np.cumsum((found * upto / ranked**2)[::-1])[::-1]
    of_positive = (upto / ranked + later_positives)[place]
    change: Floats = (positive * (of_positive - score) - later_items[place]) / total
    return change


def _of_counts(statistic: str, x: Floats, y: Floats) -> Floats:
    """Return the influences by numerical derivatives, one for each distinct pair of x and y."""
    import numpy as np

    pairs, place, counts = np.unique(np.stack([x, y]), axis=1, return_inverse=True, return_counts=True)
    score = STATISTICS[statistic](pairs[0], pairs[1])
    steps = _STEP * np.eye(len(counts))
    change = (score(counts[:, None] + steps) - score(counts[:, None] - steps)) / (2 * _STEP)
    of_item: Floats = change[np.asarray(place).reshape(-1)]
    of_item -= of_item.mean()
    return of_item


def summed(influences_of_items: Floats, clusters: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """Return the sum of influences of each cluster, and the clusters, ascending."""
    import numpy as np

    names, place = np.unique(clusters, return_inverse=True)
    totals = np.bincount(place, influences_of_items).astype(float)
    return totals, names
