"""Influence values: the effect of each item on a statistic, from which its variance over items follows.

The influence of an item is the derivative of the statistic with respect to the item's count, at the data: the
infinitesimal jackknife (Jaeckel, 1972; Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter
21). The variance of the statistic is the sum of squared influences over independent items. For a mean it is
the variance of the t-test. For Spearman's correlation of few items it is nearer to the true variance than the
bootstrap's, in which an item that is drawn twice ties with itself.

The influences of all items sum to 0.
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

    They are 0 where the statistic is undefined, such as a correlation with a constant.
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
    """Return the influences on Pearson's correlation of the ranks, which depend on the counts, too."""
    rx, ry = centred_ranks(x), centred_ranks(y)
    # One more item of a value raises the ranks of all higher values by 1/2, and lowers those of lower ones.
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
    """Return the influences on average precision: (sum over values of y of precision * positives) / positives."""
    import numpy as np

    positive = (x > 0).astype(float)
    total = positive.sum()
    if total == 0:
        return np.zeros_like(x)
    _, value = np.unique(-y, return_inverse=True)
    positives = np.bincount(value, positive)
    upto, ranked = np.cumsum(positives), np.cumsum(np.bincount(value))
    score = (positives * upto / ranked).sum() / total
    # An item changes the term of its own value of y and the terms of all lower ones.
    later_positives = np.cumsum((positives / ranked)[::-1])[::-1]
    later_items = np.cumsum((positives * upto / ranked**2)[::-1])[::-1]
    of_positive = upto / ranked + later_positives
    gain = positive * (of_positive[value] - score)
    change: Floats = (gain - later_items[value]) / total
    return change


def _by_numerical_derivatives(statistic: str, x: Floats, y: Floats) -> Floats:
    """Return the influences by numerical derivatives, one for each distinct pair of x and y."""
    import numpy as np

    pairs, pair_of_item, counts = np.unique(
        np.stack([x, y]), axis=1, return_inverse=True, return_counts=True
    )
    score = BY_COUNTS[statistic](pairs[0], pairs[1])
    steps = _STEP * np.eye(len(counts))
    above = score(counts[:, None] + steps)
    below = score(counts[:, None] - steps)
    change = (above - below) / (2 * _STEP)
    of_items: Floats = change[pair_of_item.reshape(-1)]
    of_items -= of_items.mean()
    return of_items
