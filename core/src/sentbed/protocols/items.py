"""The items from which a score was computed. They give the score again, its influence values and interval."""

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
"""Maximum number of counts of resamples held at a time."""

_ROUNDING = 1e-9
"""Standard errors up to this, in the unit of the score, are rounding errors."""


@attrs.frozen(eq=False)
class ItemGroup:
    """The items of one group of `Items`; of all items if these are not grouped."""

    members: NDArray[np.int64]
    """`(size,)`: indices into all items."""
    share: float
    """Weight of the group in the score; those of all groups sum to 1."""
    columns: tuple[Floats, ...]
    """`x`, and `y` if there is one, each `(size,)`."""


@attrs.frozen(eq=False)
class Items:
    """Items from which a score was computed, with the score and its confidence interval.

    Encoders scored on the same data by the same protocol have the same items in the same order.
    """

    statistic: str | Callable[..., float] = attrs.field(converter=statistic_by_name)
    """Statistic of the items that gives the score: `mean` of `x`; `spearman`, `pearson`, `matthews`, `f1`,
    `average-precision` or `v-measure` of `x` and `y`; one of these functions from `sentbed.statistics`; or
    another module-level function, `f(x)` or `f(x, y)`."""
    x: NDArray[np.float64]
    """`(n,)`: for `mean` the value of each item, such as 1 if it is correct; otherwise the gold value."""
    y: NDArray[np.float64] | None = None
    """`(n,)`: the prediction, such as the cosine, the class or the cluster; None for `mean`."""
    groups: NDArray[np.int64] | None = None
    """`(n,)`, group indices from 0: the score is the mean over groups, such as the subsets of an STS year."""
    weighted: bool = False
    """Whether groups are weighted by their number of items."""
    scale: float = 100.0
    """Factor from the statistic to the score."""
    clusters: NDArray[np.int64] | None = None
    """`(n,)`: cluster of each item, from `sentbed.helpers.identities`. Items of a cluster, such as pairs from one
    passage, are resampled together. An item that occurs in several tasks has the same cluster in each, so that
    it counts once in their mean. None if all items are independent and occur in this task only."""

    def value(self) -> float:
        """Return the score: the mean over groups of the statistic, times `scale`.

        A correlation is 0 where a side is constant, as are Matthews' and F1 where there is nothing to find.

        Raises:
            RunError: if the items cannot be used.
        """
        self.require_usable()
        groups = self.by_group()
        return self._score(groups, [group.columns for group in groups])

    def interval(
        self, level: float = 0.95, draws: int = 500, seed: int = 0
    ) -> tuple[float, float] | None:
        """Return the score's confidence interval over its items: Student's t, with variance from `components`.

        It is cut to the range of the statistic, such as 0 and 100 for F1. `draws` and `seed` are for statistics
        of plugins, which are resampled. None if the spread is unknown: every group has one item, or all items
        are equal.

        Raises:
            RunError: if the items cannot be used, `level` is not between 0 and 1, or `draws` is below 2.
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
        """Return the smallest and the largest possible value of the score; infinite if unknown.

        A mean of items that are all 0 or 1, such as wrong or right, lies between 0 and 1 times `scale`.
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
        """Return the influence value of each item, `(n,)`: the score's derivative with respect to its count.

        The values of a group sum to 0. They are 0 where the statistic is undefined, such as a correlation with
        a constant.

        Raises:
            RunError: if the items cannot be used, or the statistic is a plugin's, whose derivatives are unknown.
        """
        import numpy as np

        self.require_usable()
        if callable(self.statistic):
            raise RunError(
                f"nothing is known of the derivatives of the statistic `{self.statistic_name}`; resample the "
                "items, as `components` does"
            )
        values = np.zeros(len(self.x))
        for group in self.by_group():
            of_group = influence_values(self.statistic, *group.columns)
            values[group.members] = self.scale * group.share * of_group
        return values

    def components(self, draws: int = 500, seed: int = 0) -> ItemComponents | None:
        """Return the components of the score's variance over items; None if every group has one item.

        They are computed from influence values, or, for a plugin's statistic, from `draws` resamples.

        Raises:
            RunError: if the items cannot be used.
        """
        import numpy as np

        self.require_usable()
        sizes = [self._independent(group) for group in self.by_group()]
        repeated = [size for size in sizes if size > 1]
        if not repeated:
            return None
        names = self.clusters
        if callable(self.statistic):
            scores = self.resample(draws, seed)
            values = (scores - scores.mean()) / math.sqrt(len(scores) - 1)
            names = None
        else:
            values = self.influences()
            if names is not None:
                names, cluster_of_item = np.unique(names, return_inverse=True)
                values = np.bincount(cluster_of_item, values)
        degrees, correction = self._degrees_and_correction(repeated)
        return ItemComponents(
            values * correction, (Block(len(values), degrees),), names
        )

    def _degrees_and_correction(self, sizes: Sequence[int]) -> tuple[float, float]:
        """Return degrees of freedom and the factor that makes the components' variance unbiased.

        `sizes` are the numbers of items of the groups with several.
        """
        total = 0.0
        biased = 0.0
        parts = []
        for size in sizes:
            # Variance of the group's part of the score, if all items have the same variance.
            variance = float(size) if self.weighted else 1 / size
            total += variance
            # The squares of n influence values, and resamples of n items, give (n - 1) / n of the variance.
            biased += variance * (size - 1) / size
            parts.append((variance, size - 1.0))
        return satterthwaite(parts), math.sqrt(total / biased)

    def resample(self, draws: int, seed: int = 0) -> Floats:
        """Return the scores of bootstrap samples of the items, `(draws,)`.

        Items are drawn with replacement within each group, and those of a cluster together.

        Raises:
            RunError: if the items cannot be used, or `draws` is below 2.
        """
        import numpy as np

        self.require_usable()
        if draws < 2:
            raise RunError(
                f"found {draws} draws of the items, expected two or more, such as 500"
            )
        rng = np.random.default_rng(seed)
        groups = self.by_group()
        scores = []
        for width in _blocks(len(self.x), draws):
            for counts in self._draw_counts(rng, groups, width).T:
                samples = []
                for group in groups:
                    times = counts[group.members]
                    sample = [np.repeat(column, times) for column in group.columns]
                    samples.append(tuple(sample))
                scores.append(self._score(groups, samples))
        return np.array(scores)

    def by_group(self) -> list[ItemGroup]:
        """Return the items of each group, in the order of their numbers."""
        import numpy as np

        members = [np.arange(len(self.x))]
        if self.groups is not None:
            numbers = np.unique(self.groups)
            members = [np.flatnonzero(self.groups == number) for number in numbers]
        groups = []
        for places in members:
            share = 1 / len(members)
            if self.weighted:
                share = len(places) / len(self.x)
            columns: tuple[Floats, ...] = (self.x[places].astype(float),)
            if self.y is not None:
                columns = (*columns, self.y[places].astype(float))
            groups.append(ItemGroup(places, share, columns))
        return groups

    @property
    def statistic_name(self) -> str:
        """Name of the statistic; `MODULE:FUNCTION` for a plugin's function."""
        if not callable(self.statistic):
            return self.statistic
        # A callable object that is not a function has no `__qualname__`.
        name = getattr(self.statistic, "__qualname__", repr(self.statistic))
        return f"{self.statistic.__module__}:{name}"

    def require_usable(self) -> None:
        """Raise `RunError` if the statistic is unknown, or columns differ in length or are not finite."""
        import numpy as np

        name = self.statistic_name
        if callable(self.statistic):
            if not name.partition(":")[2].isidentifier():
                raise RunError(
                    f"the statistic `{name}` is no function of a module; define it at the top of one, "
                    "where `sentbed compare` can find it again"
                )
        elif name not in STATISTICS:
            names = ", ".join(f"`{statistic}`" for statistic in sorted(STATISTICS))
            raise RunError(f"there is no statistic `{name}`; choose one of {names}")
        elif (self.y is None) != (name == "mean"):
            has = "lack" if self.y is None else "have"
            raise RunError(f"items of `{name}` {has} `y`; give it, except to `mean`")

        columns = {
            "x": self.x,
            "y": self.y,
            "groups": self.groups,
            "clusters": self.clusters,
        }
        present = {
            name: column for name, column in columns.items() if column is not None
        }
        if len(set(map(len, present.values()))) > 1 or not len(self.x):
            sizes = ", ".join(
                f"{len(column)} of `{name}`" for name, column in present.items()
            )
            raise RunError(f"found {sizes}, expected as many of each and at least one")
        for name, column in present.items():
            if not np.isfinite(column).all():
                raise RunError(
                    f"`{name}` of the items has NaN or infinite values; score the encoder again"
                )

    def _score(
        self, groups: list[ItemGroup], columns: list[tuple[Floats, ...]]
    ) -> float:
        """Return the score of some columns, one tuple per group."""
        statistic = self.statistic
        if isinstance(statistic, str):
            statistic = STATISTICS[statistic]
        total = 0.0
        for group, of_group in zip(groups, columns, strict=True):
            total += group.share * float(statistic(*of_group))
        return self.scale * total

    def _independent(self, group: ItemGroup) -> int:
        """Return the number of independent items of a group: of its clusters, or else of its items."""
        import numpy as np

        if self.clusters is None:
            return len(group.members)
        return len(np.unique(self.clusters[group.members]))

    def _draw_counts(
        self, rng: np.random.Generator, groups: list[ItemGroup], width: int
    ) -> NDArray[np.int64]:
        """Return how often each item is in each of `width` bootstrap samples, `(n, width)`."""
        import numpy as np

        counts = np.empty((len(self.x), width), np.int64)
        for group in groups:
            cluster_of_item = np.arange(len(group.members))
            if self.clusters is not None:
                _, cluster_of_item = np.unique(
                    self.clusters[group.members], return_inverse=True
                )
            size = int(cluster_of_item.max()) + 1
            places = rng.integers(0, size, (size, width)) * width + np.arange(width)
            drawn = np.bincount(places.ravel(), minlength=size * width)
            counts[group.members] = drawn.reshape(size, width)[cluster_of_item]
        return counts


def _blocks(count: int, draws: int) -> Iterator[int]:
    """Divide `draws` bootstrap samples of `count` items into blocks that fit into memory; yield their sizes."""
    size = max(1, _COUNTS_AT_ONCE // count)
    for start in range(0, draws, size):
        yield min(size, draws - start)
