"""Statistics that compute a score from its items, and the influence of each item on them.

The influence of an item is the derivative of the statistic with respect to how often the item occurs, taken at
the data (the infinitesimal jackknife: Jaeckel, 1972; Efron and Tibshirani, An Introduction to the Bootstrap,
1993, chapter 21). The influences of all items sum to 0.

The variance of the statistic is the sum of the squared influences of independent items. For a mean, it is the
variance of the t-test. For Spearman's correlation of few items, it is closer to the true variance than that of
the bootstrap, in which an item that is drawn twice ties with itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray
from sentbed.protocols import Items

Floats: TypeAlias = NDArray[np.float64]

Result: TypeAlias = tuple[float, Floats]
"""A statistic of n items, and the influence of each item on it, `(n,)`."""

Function: TypeAlias = Callable[..., Result]
"""A function of the values `x` of items, and of their values `y` if the statistic has any; each `(n,)`."""


@attrs.frozen(eq=False)
class ItemGroup:
    """One group of `Items`, such as a subset of an STS year. Items without groups form one group."""

    members: NDArray[np.int64]
    """`(size,)`: index of each item of the group among all items."""
    share: float
    """Weight of the group in the score. The weights of all groups sum to 1."""
    columns: tuple[Floats, ...]
    """The values `x` of the items, and `y` if there are any; each `(size,)`."""


def item_groups(items: Items) -> list[ItemGroup]:
    """Return the groups of items, in the order of their indices in `Items.groups`."""
    members = [np.arange(len(items.x))]
    if items.groups is not None:
        members = []
        for number in np.unique(items.groups):
            is_member = items.groups == number
            members.append(np.flatnonzero(is_member))

    groups = []
    for indices in members:
        share = 1 / len(members)
        if items.weighted:
            share = len(indices) / len(items.x)

        x = items.x[indices].astype(float)
        columns: tuple[Floats, ...] = (x,)
        if items.y is not None:
            y = items.y[indices].astype(float)
            columns = (x, y)

        groups.append(ItemGroup(indices, share, columns))

    return groups


def item_score(items: Items) -> float:
    """Return the score of items: the mean of the statistic over the groups, multiplied by `Items.scale`.

    Correlations are 0 if `x` or `y` is constant, F1 and average precision if there is nothing to find.
    """
    statistic = STATISTICS[items.statistic]
    score = 0.0
    for group in item_groups(items):
        value, _ = statistic(*group.columns)
        score += group.share * value
    return items.scale * score


def item_influences(items: Items) -> Floats:
    """Return the influence of each item on the score, `(n,)`. The influences of a group sum to 0.

    They are 0 if the statistic is undefined, such as a correlation with a constant.
    """
    statistic = STATISTICS[items.statistic]
    influences = np.zeros(len(items.x))
    for group in item_groups(items):
        _, of_group = statistic(*group.columns)
        influences[group.members] = items.scale * group.share * of_group
    return influences


def score_range(items: Items) -> tuple[float, float]:
    """Return the smallest and the largest possible value of the score; infinite if they are unknown.

    If all items are 0 or 1 (wrong or right), their mean lies between 0 and 1, so the score is at most
    `Items.scale`.
    """
    low = 0.0
    high = 1.0
    if items.statistic in ("pearson", "spearman", "matthews"):
        low = -1.0
    if items.statistic == "mean":
        is_right_or_wrong = np.isin(items.x, (0, 1))
        if not is_right_or_wrong.all():
            low = -math.inf
            high = math.inf

    # The scale may be negative.
    ends = (items.scale * low, items.scale * high)

    return min(ends), max(ends)


def _mean(x: Floats) -> Result:
    """Return the mean of the values."""
    mean = x.mean()
    influences = (x - mean) / len(x)
    return float(mean), influences


def _pearson(x: Floats, y: Floats) -> Result:
    """Return Pearson's correlation; 0 if x or y is constant."""
    x = _centred(x)
    y = _centred(y)
    return _correlation(
        x,
        y,
        of_product=x * y,
        of_x=x * x,
        of_y=y * y,
    )


def _spearman(x: Floats, y: Floats) -> Result:
    """Return Spearman's correlation; 0 if x or y is constant. Equal values have their mean rank.

    It is Pearson's correlation of the ranks. The ranks depend on how often each item occurs, too.
    """
    rx = _centred_ranks(x)
    ry = _centred_ranks(y)

    # One more item with a value raises the centred ranks of all higher values by 1/2, and lowers those of all
    # lower values by 1/2.
    of_product = rx * ry
    of_product -= _centred_ranks(x, ry)
    of_product -= _centred_ranks(y, rx)
    of_x = rx * rx - 2 * _centred_ranks(x, rx)
    of_y = ry * ry - 2 * _centred_ranks(y, ry)

    return _correlation(
        rx,
        ry,
        of_product=of_product,
        of_x=of_x,
        of_y=of_y,
    )


def _matthews(x: Floats, y: Floats) -> Result:
    """Return Matthews' correlation of classes x and predicted classes y; 0 if x or y has only one class.

    It is the correlation of indicator variables, one for each class (Gorodkin, 2004).
    """
    classes = np.unique([x, y])
    gold = _centred_indicators(x, classes)
    predicted = _centred_indicators(y, classes)
    of_product = gold * predicted
    of_x = gold * gold
    of_y = predicted * predicted

    return _correlation(
        gold,
        predicted,
        of_product=of_product.sum(axis=1),
        of_x=of_x.sum(axis=1),
        of_y=of_y.sum(axis=1),
    )


def _centred_indicators(values: Floats, classes: Floats) -> Floats:
    """Return whether each item has each class, minus the share of items with the class, `(n, classes)`."""
    has_class = values[:, None] == classes
    indicators: Floats = has_class.astype(float)
    indicators -= indicators.mean(axis=0)
    return indicators


def _correlation(
    x: Floats,
    y: Floats,
    *,
    of_product: Floats,
    of_x: Floats,
    of_y: Floats,
) -> Result:
    """Return sum(x y) / sqrt(sum(x²) sum(y²)), and the influences on it; 0 if a sum of squares is 0.

    Args:
        x: Centred values, `(n,)`, or `(n, classes)`.
        y: Centred values of the same shape.
        of_product: Influence of each item on sum(x y), `(n,)`.
        of_x: Influence of each item on sum(x²), `(n,)`.
        of_y: Influence of each item on sum(y²), `(n,)`.
    """
    product = np.vdot(x, y)
    square_x = np.vdot(x, x)
    square_y = np.vdot(y, y)
    if square_x <= 0 or square_y <= 0:
        return 0.0, np.zeros(len(x))

    scale = np.sqrt(square_x * square_y)
    correlation = product / scale
    change_of_squares = of_x / square_x + of_y / square_y
    influences = of_product / scale - correlation / 2 * change_of_squares

    return float(correlation), influences


def _f1(x: Floats, y: Floats) -> Result:
    """Return the F1 score of class 1 for classes x and predicted classes y; 0 if neither has this class."""
    is_gold = (x == 1).astype(float)
    is_predicted = (y == 1).astype(float)
    in_both = is_gold * is_predicted
    in_either = is_gold + is_predicted

    total = in_either.sum()
    if total == 0:
        return 0.0, np.zeros(len(x))

    f1 = 2 * in_both.sum() / total
    influences = (2 * in_both - f1 * in_either) / total

    return float(f1), influences


def _average_precision(x: Floats, y: Floats) -> Result:
    """Return the mean precision at the positive items (x > 0), ranked by descending y, as in scikit-learn.

    Items with equal y are ranked together. The result is 0 if no item is positive. Average precision is the sum,
    over the distinct values of y, of the precision down to this value times its number of positive items, divided
    by the number of all positive items.
    """
    positive = (x > 0).astype(float)
    total = positive.sum()
    if total == 0:
        return 0.0, np.zeros(len(x))

    # For each distinct value of y, in descending order: its positive items, and all items down to it.
    _, value_of_item = np.unique(-y, return_inverse=True)
    positives = np.bincount(value_of_item, positive)
    ranked_positives = np.cumsum(positives)
    ranked = np.cumsum(np.bincount(value_of_item))
    precision = ranked_positives / ranked
    score = (positives * precision).sum() / total

    # An item changes the term of its value of y, and the terms of all lower values.
    share = positives / ranked
    gain = precision + _sums_from_each_on(share)
    gain -= score
    cost = _sums_from_each_on(share * precision)
    influences = positive * gain[value_of_item] - cost[value_of_item]

    return float(score), influences / total


def _sums_from_each_on(values: Floats) -> Floats:
    """Return the sum of each value and all later ones."""
    backwards = np.cumsum(values[::-1])
    return backwards[::-1]


def _centred(values: Floats) -> Floats:
    """Return the values minus their mean; exactly 0 if they are constant."""
    centred_once: Floats = values - values.mean()
    # Of a constant, a rounding error may be left. It is a constant, too, so that a second time removes it.
    centred_twice: Floats = centred_once - centred_once.mean()
    if centred_twice @ centred_twice <= 1e-12 * (centred_once @ centred_once):
        centred_twice[:] = 0
    return centred_twice


def _centred_ranks(values: Floats, weights: Floats | None = None) -> Floats:
    """Return the rank of each item minus the mean rank, `(n,)`; equal values have their mean rank.

    With `weights` of the items, return half the difference between the sum of weights of lower values and the
    sum of weights of higher values.
    """
    _, value_of_item = np.unique(values, return_inverse=True)
    weight_of_value = np.bincount(value_of_item, weights)

    cumulative = np.cumsum(weight_of_value)

    lower = cumulative - weight_of_value
    higher = cumulative[-1] - cumulative
    ranks: Floats = (lower - higher) / 2

    return ranks[value_of_item]


STATISTICS: dict[str, Function] = {
    "average-precision": _average_precision,
    "f1": _f1,
    "matthews": _matthews,
    "mean": _mean,
    "pearson": _pearson,
    "spearman": _spearman,
}
"""The functions of the statistics that `Items.statistic` may name."""
