"""Statistics of items: the score that they give, and its range."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
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


def statistic_of(items: Items, weights: Sequence[int]) -> float:
    """Return the score of items that can be used, whose groups have these weights.

    A correlation is 0 where a side is constant, as are Matthews' and F1 where nothing is to be found.
    """
    import numpy as np

    values = []
    for members in members_of(items):
        x, y = columns_of(items, members)
        values.append(_value(items.statistic, x, y))
    return items.scale * float(np.average(values, weights=weights))


def _value(statistic: str | Callable[..., float], x: Floats, y: Floats | None) -> float:
    import numpy as np

    if callable(statistic):
        columns = [x] if y is None else [x, y]
        return float(statistic(*columns))
    if y is None:
        return float(x.mean())
    if statistic in BY_COUNTS:
        return float(BY_COUNTS[statistic](x, y)(np.ones((len(x), 1)))[0])
    if statistic == "average-precision":
        return _average_precision(x, y)
    if statistic == "spearman":
        x, y = centred_ranks(x), centred_ranks(y)
    return _pearson(x, y)


def _pearson(x: Floats, y: Floats) -> float:
    x, y = centred(x), centred(y)
    spread = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread > 0 else 0.0


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


def _average_precision(x: Floats, y: Floats) -> float:
    """Return the mean precision at the items with x > 0, by falling y; equal values of y count together."""
    import numpy as np

    _, place = np.unique(-y, return_inverse=True)
    positives = np.bincount(place, x > 0)
    precision = np.cumsum(positives) / np.cumsum(np.bincount(place))
    return float((precision * positives).sum() / max(positives.sum(), 1))


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
    gold = (x == 1).astype(float)
    predicted = (y == 1).astype(float)
    both = gold * predicted
    either = gold + predicted
    return lambda counts: _ratio(2 * (both @ counts), either @ counts)


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

STATISTICS = ("average-precision", "mean", "pearson", "spearman", *BY_COUNTS)
"""Names of the statistics that need no function of a plugin."""

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
