"""The items from which a score was computed, such as the pairs of a test set.

The score can be computed from them again, and also its influence values and its confidence interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from sentbed.errors import RunError
from sentbed.statistics.estimated_difference import EstimatedDifference, Source
from sentbed.statistics.influences import influence_values
from sentbed.statistics.item_components import Block, ItemComponents, satterthwaite
from sentbed.statistics.named_statistics import RANGES, STATISTICS, statistic_by_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed.statistics.named_statistics import Floats

_COUNTS_AT_ONCE = 1 << 17
"""Largest number of counts (how often an item is in a bootstrap sample) to store in memory at a time."""

_ROUNDING = 1e-9
"""Standard errors up to this, in the unit of the score, are rounding errors."""


@attrs.frozen(eq=False)
class ItemGroup:
    """One group of `Items`, such as a subset of an STS year. Items without groups form one group."""

    members: NDArray[np.int64]
    """`(size,)`: index of each item of the group among all items."""
    share: float
    """Weight of the group in the score. The weights of all groups sum to 1."""
    columns: tuple[Floats, ...]
    """The values `x` of the items, and `y` if there are any; each `(size,)`."""


@attrs.frozen(eq=False)
class Items:
    """The items from which a score was computed, and the statistic that computes the score.

    Encoders that are scored on the same data by the same protocol have the same items in the same order.

    Raises:
        ValueError: if the statistic is unknown, or `x`, `y`, groups and clusters do not fit together. They must
            be arrays of finite numbers of the same length, at least 1.
    """

    statistic: str | Callable[..., float] = attrs.field(converter=statistic_by_name)
    """Statistic that computes the score.

    `mean` needs `x`; `spearman`, `pearson`, `matthews`, `f1`, `average-precision` and `v-measure` need `x` and
    `y`. The function of that name from `sentbed.statistics` may be given as well. A plugin may give another
    function, `f(x)` or `f(x, y)`, that is defined at the top level of a module.
    """
    x: NDArray[np.float64]
    """`(n,)`: for `mean`, the value of each item, such as 1 if it is correct; otherwise the gold value."""
    y: NDArray[np.float64] | None = None
    """`(n,)`: the prediction, such as the cosine, the class or the cluster; None for `mean`."""

    groups: NDArray[np.int64] | None = None
    """`(n,)`: index of each item's group, from 0. The score is the mean over groups; None for a single group."""
    weighted: bool = False
    """Whether groups are weighted by their number of items."""
    scale: float = 100.0
    """Number by which the statistic is multiplied to give the score."""

    clusters: NDArray[np.int64] | None = None
    """`(n,)`: cluster of each item, from `sentbed.helpers.identities`.

    Items in the same cluster, such as pairs from one passage, are resampled together. An item that occurs in
    several tasks has the same cluster in each task, so that it counts once in their mean. None if all items are
    independent and occur only in this task.
    """

    def __attrs_post_init__(self) -> None:
        import numpy as np

        name = self.statistic_name
        if callable(self.statistic):
            if not name.partition(":")[2].isidentifier():
                raise ValueError(
                    f"the statistic `{name}` is no function of a module; define it at the top of one, "
                    "where `sentbed compare` can find it again"
                )
        elif name not in STATISTICS:
            names = ", ".join(f"`{statistic}`" for statistic in sorted(STATISTICS))
            raise ValueError(f"there is no statistic `{name}`; choose one of {names}")
        elif (self.y is None) != (name == "mean"):
            has = "lack" if self.y is None else "have"
            raise ValueError(f"items of `{name}` {has} `y`; give it, except to `mean`")

        lengths = {}
        for name in ("x", "y", "groups", "clusters"):
            column = getattr(self, name)
            if column is None and name != "x":
                continue
            is_array = isinstance(column, np.ndarray) and column.ndim == 1
            if not is_array or column.dtype.kind not in "biuf":
                raise ValueError(
                    f"`{name}` of the items is {column!r:.80}, expected an array with a number per item"
                )
            if not np.isfinite(column).all():
                raise ValueError(
                    f"`{name}` of the items has NaN or infinite values, expected finite numbers"
                )
            lengths[name] = len(column)
        if len(set(lengths.values())) > 1 or lengths["x"] == 0:
            sizes = ", ".join(
                f"{length} of `{name}`" for name, length in lengths.items()
            )
            raise ValueError(
                f"found {sizes}, expected as many of each and at least one"
            )

    def value(self) -> float:
        """Return the score: the mean of the statistic over the groups, multiplied by `scale`.

        A correlation is 0 if `x` or `y` is constant. Matthews' coefficient and F1 are 0 if there is nothing to
        find.
        """
        groups = self.by_group()
        return self._score(groups, [group.columns for group in groups])

    def interval(
        self,
        level: float = 0.95,
        draws: int = 500,
        seed: int = 0,
    ) -> tuple[float, float] | None:
        """Return the confidence interval of the score over its items, by Student's t.

        The variance is that of `components`. The interval is cut to the range of the statistic, such as 0 to 100
        for F1. Return None if the variance is unknown because every group has one item, or zero because all
        items are equal.

        Args:
            level: Probability that the interval covers the score of all possible items.
            draws: Number of bootstrap samples, for a plugin's statistic.
            seed: Seed of the bootstrap samples.

        Raises:
            RunError: if `level` is not between 0 and 1, or `draws` is below 2.
        """
        if not 0 < level < 1:
            raise RunError(
                f"found the level {level!r} of an interval, expected one between 0 and 1, such as 0.95"
            )
        components = self.components(draws, seed)
        if components is None:
            return None
        variance = components.variance(components.values)
        if math.sqrt(variance) <= _ROUNDING:
            return None
        source = Source(variance, components.degrees(components.values))
        low, high = EstimatedDifference(self.value(), (source,)).interval(level)
        least, most = self.range()
        return max(low, least), min(high, most)

    def range(self) -> tuple[float, float]:
        """Return the smallest and the largest possible value of the score; infinite if they are unknown.

        If all items are 0 or 1 (wrong or right), their mean lies between 0 and 1, so the score is at most
        `scale`.
        """
        import numpy as np

        low, high = -math.inf, math.inf
        if isinstance(self.statistic, str):
            low, high = RANGES.get(self.statistic, (low, high))
        if self.statistic == "mean" and np.isin(self.x, (0, 1)).all():
            low, high = 0.0, 1.0
        ends = self.scale * low, self.scale * high
        return min(ends), max(ends)

    def influences(self) -> Floats:
        """Return the influence value of each item, `(n,)`.

        It is the derivative of the score with respect to how often the item occurs. The values of a group sum to
        0. They are 0 if the statistic is undefined, such as a correlation with a constant.

        Raises:
            RunError: if the statistic is that of a plugin: its derivative is unknown.
        """
        import numpy as np

        if callable(self.statistic):
            raise RunError(
                f"nothing is known of the derivatives of the statistic `{self.statistic_name}`; resample the "
                "items, as `components` does"
            )
        values = np.zeros(len(self.x))
        for group in self.by_group():
            influences = influence_values(self.statistic, *group.columns)
            values[group.members] = self.scale * group.share * influences
        return values

    def components(self, draws: int = 500, seed: int = 0) -> ItemComponents | None:
        """Return the contributions of the items to the score's sampling error; None if every group has one item.

        They are computed from influence values. For a plugin's statistic, there is instead one component for each
        of `draws` bootstrap samples.
        """
        import numpy as np

        sizes = [self._independent_items(group) for group in self.by_group()]
        sizes = [size for size in sizes if size > 1]
        if not sizes:
            return None

        clusters = self.clusters
        if callable(self.statistic):
            scores = self.resample(draws, seed)
            values = (scores - scores.mean()) / math.sqrt(len(scores) - 1)
            clusters = None
        else:
            values = self.influences()
            if clusters is not None:
                clusters, cluster_of_item = np.unique(clusters, return_inverse=True)
                values = np.bincount(cluster_of_item, values)

        degrees, correction = self._degrees_and_correction(sizes)
        blocks = (Block(len(values), degrees),)
        return ItemComponents(values * correction, blocks, clusters)

    def _degrees_and_correction(self, sizes: Sequence[int]) -> tuple[float, float]:
        """Return the degrees of freedom, and the factor for the components that makes their variance unbiased.

        `sizes` has the number of independent items of each group that has more than one.
        """
        total = 0.0
        biased = 0.0
        parts = []
        for size in sizes:
            # Variance of the group's part of the score, up to a constant, if all items have the same variance.
            variance = float(size) if self.weighted else 1 / size
            total += variance
            # The squares of n influence values, and resamples of n items, give (n - 1) / n of the variance.
            biased += variance * (size - 1) / size
            parts.append((variance, size - 1.0))
        return satterthwaite(parts), math.sqrt(total / biased)

    def resample(self, draws: int, seed: int = 0) -> Floats:
        """Return the scores of bootstrap samples of the items, `(draws,)`.

        Items are drawn with replacement within each group; all items of a cluster are drawn together.

        Raises:
            RunError: if `draws` is below 2.
        """
        import numpy as np

        if draws < 2:
            raise RunError(
                f"found {draws} draws of the items, expected two or more, such as 500"
            )

        rng = np.random.default_rng(seed)
        groups = self.by_group()
        scores = []
        for samples in _blocks(len(self.x), draws):
            for counts in self._draw_counts(rng, groups, samples).T:
                columns = []
                for group in groups:
                    times = counts[group.members]
                    sample = [np.repeat(column, times) for column in group.columns]
                    columns.append(tuple(sample))
                scores.append(self._score(groups, columns))
        return np.array(scores)

    def by_group(self) -> list[ItemGroup]:
        """Return the groups, in the order of their indices in `groups`."""
        import numpy as np

        members = [np.arange(len(self.x))]
        if self.groups is not None:
            numbers = np.unique(self.groups)
            members = [np.flatnonzero(self.groups == number) for number in numbers]

        groups = []
        for indices in members:
            share = 1 / len(members)
            if self.weighted:
                share = len(indices) / len(self.x)
            columns: tuple[Floats, ...] = (self.x[indices].astype(float),)
            if self.y is not None:
                columns = (*columns, self.y[indices].astype(float))
            groups.append(ItemGroup(indices, share, columns))
        return groups

    @property
    def statistic_name(self) -> str:
        """Name of the statistic, as in a recipe; for a plugin's function, `MODULE:FUNCTION`."""
        if not callable(self.statistic):
            return self.statistic
        # A callable object other than a function has no `__qualname__`.
        name = getattr(self.statistic, "__qualname__", repr(self.statistic))
        return f"{self.statistic.__module__}:{name}"

    def _score(
        self, groups: list[ItemGroup], columns: list[tuple[Floats, ...]]
    ) -> float:
        """Return the score that the statistic gives for these values, such as those of a bootstrap sample.

        `columns` has the values `x`, and `y` if there are any, of each group.
        """
        statistic = self.statistic
        if isinstance(statistic, str):
            statistic = STATISTICS[statistic]
        total = 0.0
        for group, values in zip(groups, columns, strict=True):
            total += group.share * float(statistic(*values))
        return self.scale * total

    def _independent_items(self, group: ItemGroup) -> int:
        """Return the number of independent items in a group: of clusters, or of items if there are none."""
        import numpy as np

        if self.clusters is None:
            return len(group.members)
        return len(np.unique(self.clusters[group.members]))

    def _draw_counts(
        self,
        rng: np.random.Generator,
        groups: list[ItemGroup],
        samples: int,
    ) -> NDArray[np.int64]:
        """Return how often each item is in each bootstrap sample, `(n, samples)`."""
        import numpy as np

        counts = np.empty((len(self.x), samples), np.int64)
        for group in groups:
            cluster_of_item = np.arange(len(group.members))
            if self.clusters is not None:
                _, cluster_of_item = np.unique(
                    self.clusters[group.members], return_inverse=True
                )
            size = int(cluster_of_item.max()) + 1

            # Each sample draws `size` clusters. A cluster and a sample together are one index for `bincount`.
            clusters = rng.integers(0, size, (size, samples))
            indices = clusters * samples + np.arange(samples)
            cluster_counts = np.bincount(indices.ravel(), minlength=size * samples)
            cluster_counts = cluster_counts.reshape(size, samples)
            counts[group.members] = cluster_counts[cluster_of_item]
        return counts


def _blocks(count: int, draws: int) -> Iterator[int]:
    """Divide `draws` bootstrap samples of `count` items into blocks that fit into memory.

    Yield the number of samples in each block.
    """
    size = max(1, _COUNTS_AT_ONCE // count)
    for start in range(0, draws, size):
        yield min(size, draws - start)
