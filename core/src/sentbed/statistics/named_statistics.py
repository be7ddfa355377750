"""The statistics that items may name: gold values and predictions -> the score, without its scale."""

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
    """Return the mean of one value an item, `(n,)`."""
    return float(_floats(x).mean())


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Return Pearson's correlation, from -1 to 1; 0 where a side is constant."""
    x, y = centred(_floats(x)), centred(_floats(y))
    spread = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread > 0 else 0.0


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Return Spearman's correlation, from -1 to 1; equal values share their mean rank, and a constant gives 0."""
    return pearson(centred_ranks(_floats(x)), centred_ranks(_floats(y)))


def matthews(x: ArrayLike, y: ArrayLike) -> float:
    """Return Matthews' correlation of classes x and predicted classes y; 0 where a side has one class.

    Of more than two classes it is that of Gorodkin (2004).
    """
    return _of_each_once("matthews", x, y)


def f1(x: ArrayLike, y: ArrayLike) -> float:
    """Return the F1 score of class 1, of classes x and predicted classes y; 0 where neither has the class."""
    return _of_each_once("f1", x, y)


def v_measure(x: ArrayLike, y: ArrayLike) -> float:
    """Return the harmonic mean of homogeneity and completeness of clusters y, of classes x.

    Rosenberg and Hirschberg, 2007. Both are 1 where there is one class, or one cluster.
    """
    return _of_each_once("v-measure", x, y)


def average_precision(x: ArrayLike, y: ArrayLike) -> float:
    """Return the mean precision at the items with x > 0, by falling y; equal values of y count together.

    As that of scikit-learn; 0 where no item has x > 0.
    """
    import numpy as np

    _, place = np.unique(-_floats(y), return_inverse=True)
    positives = np.bincount(place, _floats(x) > 0)
    precision = np.cumsum(positives) / np.cumsum(np.bincount(place))
    return float((precision * positives).sum() / max(positives.sum(), 1))


def _floats(values: ArrayLike) -> Floats:
    import numpy as np

    return np.asarray(values, float)


def _of_each_once(name: str, x: ArrayLike, y: ArrayLike) -> float:
    """Return a statistic of counts where each item counts once."""
    import numpy as np

    x, y = _floats(x), _floats(y)
    return float(BY_COUNTS[name](x, y)(np.ones((len(x), 1)))[0])


def centred(values: Floats) -> Floats:
    """Return values less their mean; exactly 0 where they are constant."""
    less_mean: Floats = values - values.mean()
    # Of a constant, rounding is left, which is constant, too.
    again: Floats = less_mean - less_mean.mean()
    if again @ again <= 1e-12 * (less_mean @ less_mean):
        again[:] = 0
    return again


def centred_ranks(values: Floats, weights: Floats | None = None) -> Floats:
    """Return each item's rank less the mean rank, `(n,)`; equal values share the mean of their ranks.

    With `weights` of the items: half the weights of lower values, less half those of higher ones.
    """
    import numpy as np

    _, place = np.unique(values, return_inverse=True)
    of_value = np.bincount(place, weights)
    upto = np.cumsum(of_value)
    lower, higher = upto - of_value, upto[-1] - upto
    ranks: Floats = (lower - higher) / 2
    return ranks[place]


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
    either = (x == 1).astype(float) + (y == 1).astype(float)
    return lambda counts: _ratio(2 * (both @ counts), either @ counts)


def _v_measure(x: Floats, y: Floats) -> OfCounts:
    """Return the V-measure of clusters y, of classes x."""
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


def _ratio(above: Floats, below: Floats) -> Floats:
    """Return the quotient, 0 where it is not defined."""
    import numpy as np

    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


BY_COUNTS: dict[str, Callable[[Any, Any], OfCounts]] = {
    "matthews": _matthews,
    "f1": _f1,
    "v-measure": _v_measure,
}
"""Statistics as functions of how often each item counts, for derivatives with respect to that."""

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
"""Name of a statistic -> its least and its largest value. A mean has none."""


def statistic_by_name(
    statistic: str | Callable[..., float],
) -> str | Callable[..., float]:
    """Return the name of a function of `STATISTICS`; anything else as it is."""
    for name, function in STATISTICS.items():
        if statistic is function:
            return name
    return statistic
