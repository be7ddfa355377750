"""Influence values: how much each item moves the statistic of a score, for its variance over items.

The influence of an item is the derivative of the statistic with respect to the item's count, at the data: the
infinitesimal jackknife (Jaeckel, 1972; Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter
21). The sum of its squares over independent items is the variance of the statistic. For a mean it is that of
the t-test; for Spearman's correlation of few items it is nearer to the true variance than that of resamples,
where an item that is drawn twice ties with itself.

All values sum to 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed.statistics.named_statistics import BY_COUNTS, centred, centred_ranks

if TYPE_CHECKING:
    from sentbed.statistics.named_statistics import Floats

_STEP = 1e-4
"""Change of a count for a numerical derivative; counts are at least 1."""


def influence_values(statistic: str, x: Floats, y: Floats | None = None) -> Floats:
    """Return the influence of each item on a statistic of `STATISTICS`, `(n,)`.

    Zero where the statistic is not defined, as a correlation with a constant.
    """
    if y is None:
        of_mean: Floats = (x - x.mean()) / len(x)
        return of_mean
    if statistic == "pearson":
        return _pearson(x, y)
    if statistic == "spearman":
        return _spearman(x, y)
    if statistic == "average-precision":
        return _average_precision(x, y)
    return _by_numerical_derivatives(statistic, x, y)


def _pearson(x: Floats, y: Floats) -> Floats:
    x, y = centred(x), centred(y)
    return _of_correlation(x, y, x * y, x * x, y * y)


def _spearman(x: Floats, y: Floats) -> Floats:
    """Return the influences on Pearson's correlation of the ranks, which change with the counts, too."""
    rx, ry = centred_ranks(x), centred_ranks(y)
    # Another item of a value raises the rank of all higher values by half, and lowers that of lower ones.
    product = rx * ry - centred_ranks(x, ry) - centred_ranks(y, rx)
    of_x = rx * rx - 2 * centred_ranks(x, rx)
    of_y = ry * ry - 2 * centred_ranks(y, ry)
    return _of_correlation(rx, ry, product, of_x, of_y)


def _of_correlation(
    x: Floats, y: Floats, of_product: Floats, of_x: Floats, of_y: Floats
) -> Floats:
    """Return the influences on sum(x y) / sqrt(sum(x²) sum(y²)) from those on the three sums."""
    import numpy as np

    product, square_x, square_y = x @ y, x @ x, y @ y
    if square_x <= 0 or square_y <= 0:
        return np.zeros_like(x)
    scale = np.sqrt(square_x * square_y)
    change: Floats = of_product / scale
    change -= product / scale / 2 * (of_x / square_x + of_y / square_y)
    return change


def _average_precision(x: Floats, y: Floats) -> Floats:
    """Return the influences on the sum over values of y of precision times positives, over all positives."""
    import numpy as np

    positive = (x > 0).astype(float)
    total = positive.sum()
    if total == 0:
        return np.zeros_like(x)
    _, place = np.unique(-y, return_inverse=True)
    positives = np.bincount(place, positive)
    upto, ranked = np.cumsum(positives), np.cumsum(np.bincount(place))
    score = (positives * upto / ranked).sum() / total
    # What an item adds to its own value, and to all that come after it.
    later_positives = np.cumsum((positives / ranked)[::-1])[::-1]
    later_items = np.cumsum((positives * upto / ranked**2)[::-1])[::-1]
    of_positive = upto / ranked + later_positives
    change: Floats = (
        positive * (of_positive[place] - score) - later_items[place]
    ) / total
    return change


def _by_numerical_derivatives(statistic: str, x: Floats, y: Floats) -> Floats:
    """Return the influences by numerical derivatives, one for each distinct pair of x and y."""
    import numpy as np

    pairs, place, counts = np.unique(
        np.stack([x, y]), axis=1, return_inverse=True, return_counts=True
    )
    score = BY_COUNTS[statistic](pairs[0], pairs[1])
    steps = _STEP * np.eye(len(counts))
    change = (score(counts[:, None] + steps) - score(counts[:, None] - steps)) / (
        2 * _STEP
    )
    of_items: Floats = change[place.reshape(-1)]
    of_items -= of_items.mean()
    return of_items
