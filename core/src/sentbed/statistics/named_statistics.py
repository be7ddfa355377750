"""The statistics that `Items` may name: functions of gold values and predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats: TypeAlias = NDArray[np.float64]
    OfCounts: TypeAlias = Callable[[Floats], Floats]
    """Counts `(n, resamples)` -> the statistic of each resample, `(resamples,)`."""


def mean(x: ArrayLike) -> float:
    """Return the mean of the items' values, `(n,)`."""
    return float(_floats(x).mean())


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Return Pearson's correlation, from -1 to 1; 0 if x or y is constant."""
    x, y = centred(_floats(x)), centred(_floats(y))
    spread = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread > 0 else 0.0


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Return Spearman's correlation, from -1 to 1; equal values get their mean rank, and a constant gives 0."""
    return pearson(centred_ranks(_floats(x)), centred_ranks(_floats(y)))


def matthews(x: ArrayLike, y: ArrayLike) -> float:
    """Return Matthews' correlation of classes x and predicted classes y; 0 if x or y has one class only.

    For more than two classes, see Gorodkin (2004).
    """
    return _of_each_once("matthews", x, y)


def f1(x: ArrayLike, y: ArrayLike) -> float:
    """Return the F1 score of class 1 for classes x and predictions y; 0 if neither has that class."""
    return _of_each_once("f1", x, y)


def v_measure(x: ArrayLike, y: ArrayLike) -> float:
    """Return the V-measure (Rosenberg and Hirschberg, 2007) of clusters y against classes x.

    It is the harmonic mean of homogeneity, 1 if there is one class, and completeness, 1 if there is one cluster.
    """
    return _of_each_once("v-measure", x, y)


def average_precision(x: ArrayLike, y: ArrayLike) -> float:
    """Return the mean precision at the positive items (x > 0), ranked by descending y, as in scikit-learn.

    Items with equal y are ranked together. 0 if no item is positive.
    """
    import numpy as np

    _, value = np.unique(-_floats(y), return_inverse=True)
    positives = np.bincount(value, _floats(x) > 0)
    precision = np.cumsum(positives) / np.cumsum(np.bincount(value))
    return float((precision * positives).sum() / max(positives.sum(), 1))


def _floats(values: ArrayLike) -> Floats:
    import numpy as np

    return np.asarray(values, float)


def _of_each_once(name: str, x: ArrayLike, y: ArrayLike) -> float:
    """Return a statistic of `BY_COUNTS` with every count 1."""
    import numpy as np

    x, y = _floats(x), _floats(y)
    return float(BY_COUNTS[name](x, y)(np.ones((len(x), 1)))[0])


def centred(values: Floats) -> Floats:
    """Return values minus their mean; exactly 0 if they are constant."""
    less_mean: Floats = values - values.mean()
    # A constant may leave a rounding error, which is constant, too.
    again: Floats = less_mean - less_mean.mean()
    if again @ again <= 1e-12 * (less_mean @ less_mean):
        again[:] = 0
    return again


def centred_ranks(values: Floats, weights: Floats | None = None) -> Floats:
    """Return each item's rank minus the mean rank, `(n,)`; equal values get their mean rank.

    With `weights` of the items: half the sum of weights of lower values, minus half that of higher ones.
    """
    import numpy as np

    _, value_of_item = np.unique(values, return_inverse=True)
    of_value = np.bincount(value_of_item, weights)
    upto = np.cumsum(of_value)
    lower, higher = upto - of_value, upto[-1] - upto
    ranks: Floats = (lower - higher) / 2
    return ranks[value_of_item]


def _matthews(x: Floats, y: Floats) -> OfCounts:
    """Return Matthews' correlation of two or more classes."""
    import numpy as np

    classes = np.unique([x, y])[:, None]
    right = (x == y).astype(float)
    gold = (x == classes).astype(float)
    predicted = (y == classes).astype(float)

    def score(counts: Floats) -> Floats:
        total = counts.sum(axis=0)
        of_gold, of_predicted = gold @ counts, predicted @ counts
        covariance = (right @ counts) * total - (of_gold * of_predicted).sum(axis=0)
        gold_variance = total**2 - (of_gold**2).sum(axis=0)
        predicted_variance = total**2 - (of_predicted**2).sum(axis=0)
        return _ratio(covariance, np.sqrt(gold_variance * predicted_variance))

    return score


def _f1(x: Floats, y: Floats) -> OfCounts:
    """Return the F1 score of class 1."""
    both = ((x == 1) & (y == 1)).astype(float)
    either = (x == 1).astype(float) + (y == 1).astype(float)
    return lambda counts: _ratio(2 * (both @ counts), either @ counts)


def _v_measure(x: Floats, y: Floats) -> OfCounts:
    """Return the V-measure of clusters y, of classes x."""
    import numpy as np

    def entropy_of(*values: Floats) -> OfCounts:
        _, number = np.unique(np.stack(values), axis=1, return_inverse=True)
        number = number.reshape(-1)
        members = (number == np.arange(number.max() + 1)[:, None]).astype(float)

        def entropy(counts: Floats) -> Floats:
            shares: Floats = members @ counts / counts.sum(axis=0)
            logarithms = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
            total: Floats = -(shares * logarithms).sum(axis=0)
            return total

        return entropy

    entropy_of_classes = entropy_of(x)
    entropy_of_clusters = entropy_of(y)
    entropy_of_both = entropy_of(x, y)

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


def _ratio(above: Floats, below: Floats) -> Floats:
    """Return the quotient, 0 where it is not defined."""
    import numpy as np

    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


BY_COUNTS: dict[str, Callable[[Any, Any], OfCounts]] = {
    "matthews": _matthews,
    "f1": _f1,
    "v-measure": _v_measure,
}
"""Statistics as functions of the items' counts, for derivatives with respect to these."""

STATISTICS: Mapping[str, Callable[..., float]] = MappingProxyType(
    {
        "average-precision": average_precision,
        "f1": f1,
        "matthews": matthews,
        "mean": mean,
        "pearson": pearson,
        "spearman": spearman,
        "v-measure": v_measure,
    }
)
"""Name that `Items.statistic` may have -> the function."""

RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "pearson": (-1.0, 1.0),
        "spearman": (-1.0, 1.0),
        "matthews": (-1.0, 1.0),
        "f1": (0.0, 1.0),
        "average-precision": (0.0, 1.0),
        "v-measure": (0.0, 1.0),
    }
)
"""Name of a statistic -> its smallest and its largest value. A mean is unbounded."""


def statistic_by_name(
    statistic: str | Callable[..., float],
) -> str | Callable[..., float]:
    """Return the name of a function in `STATISTICS`; anything else unchanged."""
    for name, function in STATISTICS.items():
        if statistic is function:
            return name
    return statistic
