"""Statistics that compute a score from gold values and predictions; `Items.statistic` names one of them."""

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
    """Function from the counts of the items in resamples, `(n, resamples)`, to the statistic of each resample."""


def mean(x: ArrayLike) -> float:
    """Return the mean of the values of the items, `(n,)`."""
    return float(_floats(x).mean())


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Return Pearson's correlation, from -1 to 1; 0 if x or y is constant."""
    x, y = centred(_floats(x)), centred(_floats(y))
    spread = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread > 0 else 0.0


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Return Spearman's correlation, from -1 to 1; 0 if x or y is constant. Equal values have their mean rank."""
    return pearson(centred_ranks(_floats(x)), centred_ranks(_floats(y)))


def matthews(x: ArrayLike, y: ArrayLike) -> float:
    """Return Matthews' correlation of classes x and predicted classes y; 0 if x or y has only one class.

    For more than two classes, see Gorodkin (2004).
    """
    return _with_counts_of_one("matthews", x, y)


def f1(x: ArrayLike, y: ArrayLike) -> float:
    """Return the F1 score of class 1 for classes x and predicted classes y; 0 if neither has this class."""
    return _with_counts_of_one("f1", x, y)


def v_measure(x: ArrayLike, y: ArrayLike) -> float:
    """Return the V-measure (Rosenberg and Hirschberg, 2007) of clusters y for classes x.

    It is the harmonic mean of homogeneity and completeness. Homogeneity is 1 if there is only one class,
    completeness is 1 if there is only one cluster.
    """
    return _with_counts_of_one("v-measure", x, y)


def average_precision(x: ArrayLike, y: ArrayLike) -> float:
    """Return the mean precision at the positive items (x > 0), ranked by descending y, as in scikit-learn.

    Items with equal y are ranked together. The result is 0 if no item is positive.
    """
    import numpy as np

    _, value_of_item = np.unique(-_floats(y), return_inverse=True)
    positives = np.bincount(value_of_item, _floats(x) > 0)
    precision = np.cumsum(positives) / np.cumsum(np.bincount(value_of_item))
    return float((precision * positives).sum() / max(positives.sum(), 1))


def _floats(values: ArrayLike) -> Floats:
    """Return the values as a float64 array."""
    import numpy as np

    return np.asarray(values, float)


def _with_counts_of_one(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
) -> float:
    """Return the value of a statistic in `BY_COUNTS` if every item occurs once."""
    import numpy as np

    x, y = _floats(x), _floats(y)
    return float(BY_COUNTS[name](x, y)(np.ones((len(x), 1)))[0])


def centred(values: Floats) -> Floats:
    """Return the values minus their mean; exactly 0 if they are constant."""
    centred_once: Floats = values - values.mean()
    # Of a constant, a rounding error may be left. It is a constant, too, so that a second time removes it.
    centred_twice: Floats = centred_once - centred_once.mean()
    if centred_twice @ centred_twice <= 1e-12 * (centred_once @ centred_once):
        centred_twice[:] = 0
    return centred_twice


def centred_ranks(values: Floats, weights: Floats | None = None) -> Floats:
    """Return the rank of each item minus the mean rank, `(n,)`; equal values have their mean rank.

    With `weights` of the items, return half the difference between the sum of weights of lower values and the
    sum of weights of higher values.
    """
    import numpy as np

    _, value_of_item = np.unique(values, return_inverse=True)
    weight_of_value = np.bincount(value_of_item, weights)
    cumulative = np.cumsum(weight_of_value)
    lower = cumulative - weight_of_value
    higher = cumulative[-1] - cumulative
    ranks: Floats = (lower - higher) / 2
    return ranks[value_of_item]


def _matthews(x: Floats, y: Floats) -> OfCounts:
    """Return Matthews' correlation of two or more classes, as a function of the items' counts."""
    import numpy as np

    classes = np.unique([x, y])[:, None]
    is_right = (x == y).astype(float)
    has_class = (x == classes).astype(float)
    has_predicted_class = (y == classes).astype(float)

    def score(counts: Floats) -> Floats:
        total = counts.sum(axis=0)
        gold, predicted = has_class @ counts, has_predicted_class @ counts
        covariance = (is_right @ counts) * total - (gold * predicted).sum(axis=0)
        gold_variance = total**2 - (gold**2).sum(axis=0)
        predicted_variance = total**2 - (predicted**2).sum(axis=0)
        return _ratio(covariance, np.sqrt(gold_variance * predicted_variance))

    return score


def _f1(x: Floats, y: Floats) -> OfCounts:
    """Return the F1 score of class 1, as a function of the items' counts."""
    in_both = ((x == 1) & (y == 1)).astype(float)
    in_each = (x == 1).astype(float) + (y == 1).astype(float)
    return lambda counts: _ratio(2 * (in_both @ counts), in_each @ counts)


def _v_measure(x: Floats, y: Floats) -> OfCounts:
    """Return the V-measure of clusters y for classes x, as a function of the items' counts."""
    import numpy as np

    def entropy_of(*values: Floats) -> OfCounts:
        """Return the entropy of the items' values, or of pairs of values, as a function of the counts."""
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
    """Return the quotient of two arrays; 0 where the divisor is not positive."""
    import numpy as np

    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


BY_COUNTS: dict[str, Callable[[Any, Any], OfCounts]] = {
    "matthews": _matthews,
    "f1": _f1,
    "v-measure": _v_measure,
}
"""Statistics as functions of the items' counts, for derivatives with respect to the counts."""

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
"""Functions of the statistics, by the names that `Items.statistic` may have."""

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
"""Smallest and largest value of each statistic. A mean has no limits, and no entry."""


def statistic_by_name(
    statistic: str | Callable[..., float],
) -> str | Callable[..., float]:
    """Return the name of a function that is in `STATISTICS`; return anything else unchanged."""
    for name, function in STATISTICS.items():
        if statistic is function:
            return name
    return statistic
