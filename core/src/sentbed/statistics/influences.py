"""Influence values: the effect of each item on a statistic.

The influence of an item is the derivative of the statistic with respect to how often the item occurs, taken at
the data (the infinitesimal jackknife: Jaeckel, 1972; Efron and Tibshirani, An Introduction to the Bootstrap,
1993, chapter 21). The influences of all items sum to 0.

The variance of the statistic is the sum of the squared influences of independent items. For a mean, it is the
variance of the t-test. For Spearman's correlation of few items, it is closer to the true variance than that of
the bootstrap, in which an item that is drawn twice ties with itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed.statistics.named_statistics import BY_COUNTS, centred, centred_ranks

if TYPE_CHECKING:
    from sentbed.statistics.named_statistics import Floats

_STEP = 1e-4
"""Change of an item's count (how often it occurs) for a numerical derivative; counts are at least 1."""


def influence_values(
    statistic: str,
    x: Floats,
    y: Floats | None = None,
) -> Floats:
    """Return the influence of each item on a statistic of `STATISTICS`, `(n,)`; without `y`, on the mean of `x`.

    All are 0 if the statistic is undefined, such as a correlation with a constant.
    """
    if y is None:
        influences: Floats = (x - x.mean()) / len(x)
        return influences
    if statistic == "pearson":
        return _pearson(x, y)
    if statistic == "spearman":
        return _spearman(x, y)
    if statistic == "average-precision":
        return _average_precision(x, y)
    return _by_numerical_derivatives(statistic, x, y)


def _pearson(x: Floats, y: Floats) -> Floats:
    """Return the influences on Pearson's correlation."""
    x, y = centred(x), centred(y)
    return _of_correlation(x, y, x * y, x * x, y * y)


def _spearman(x: Floats, y: Floats) -> Floats:
    """Return the influences on Spearman's correlation.

    It is Pearson's correlation of the ranks. The ranks depend on how often each item occurs, too.
    """
    rx, ry = centred_ranks(x), centred_ranks(y)
    # One more item with a value raises the centred ranks of all higher values by 1/2, and lowers those of all
    # lower values by 1/2.
    product = rx * ry - centred_ranks(x, ry) - centred_ranks(y, rx)
    of_x = rx * rx - 2 * centred_ranks(x, rx)
    of_y = ry * ry - 2 * centred_ranks(y, ry)
    return _of_correlation(rx, ry, product, of_x, of_y)


def _of_correlation(
    x: Floats,
    y: Floats,
    of_product: Floats,
    of_x: Floats,
    of_y: Floats,
) -> Floats:
    """Return the influences on sum(x y) / sqrt(sum(x²) sum(y²)).

    `of_product`, `of_x` and `of_y` are the influences on sum(x y), sum(x²) and sum(y²).
    """
    import numpy as np

    product, square_x, square_y = x @ y, x @ x, y @ y
    if square_x <= 0 or square_y <= 0:
        return np.zeros_like(x)
    scale = np.sqrt(square_x * square_y)
    influences: Floats = of_product / scale
    influences -= product / scale / 2 * (of_x / square_x + of_y / square_y)
    return influences


def _average_precision(x: Floats, y: Floats) -> Floats:
    """Return the influences on average precision.

    It is the sum, over the distinct values of y, of the precision down to this value times its number of positive
    items, divided by the number of all positive items.
    """
    import numpy as np

    positive = (x > 0).astype(float)
    total = positive.sum()
    if total == 0:
        return np.zeros_like(x)

    # For each distinct value of y, in descending order: its positive items, and all items down to it.
    _, value_of_item = np.unique(-y, return_inverse=True)
    positives = np.bincount(value_of_item, positive)
    ranked_positives = np.cumsum(positives)
    ranked = np.cumsum(np.bincount(value_of_item))
    score = (positives * ranked_positives / ranked).sum() / total

    # An item changes the term of its value of y, and the terms of all lower values.
    later_positives = np.cumsum((positives / ranked)[::-1])[::-1]
    later_items = np.cumsum((positives * ranked_positives / ranked**2)[::-1])[::-1]
    gain_of_positive = ranked_positives / ranked + later_positives
    gain = positive * (gain_of_positive[value_of_item] - score)
    influences: Floats = (gain - later_items[value_of_item]) / total
    return influences


def _by_numerical_derivatives(
    statistic: str,
    x: Floats,
    y: Floats,
) -> Floats:
    """Return the influences from numerical derivatives, which are computed for each distinct pair of x and y."""
    import numpy as np

    pairs, pair_of_item, counts = np.unique(
        np.stack([x, y]),
        axis=1,
        return_inverse=True,
        return_counts=True,
    )
    score = BY_COUNTS[statistic](pairs[0], pairs[1])
    steps = _STEP * np.eye(len(counts))
    above = score(counts[:, None] + steps)
    below = score(counts[:, None] - steps)
    derivatives = (above - below) / (2 * _STEP)
    influences: Floats = derivatives[pair_of_item.reshape(-1)]
    influences -= influences.mean()
    return influences
