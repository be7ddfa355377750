"""The items that a score was computed from, with the score, its influences and its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
"""Standard error, in the unit of the score, that is none: of sums in another order."""


@attrs.frozen(eq=False)
class ItemGroup:
    """The items of one group of `Items`; of all items if these are not grouped."""

    members: NDArray[np.int64]
    """`(size,)`: their places among all items."""
    share: float
    """Weight of the group in the score; those of all groups sum to 1."""
    columns: tuple[Floats, ...]
    """`x`, and `y` if there is one, each `(size,)`."""


@attrs.frozen(eq=False)
class Items:
    """Items from which a score was computed: they give the score again, and its interval.

    Encoders scored on the same data by the same protocol have the same items in the same order.
    """

    statistic: str | Callable[..., float] = attrs.field(converter=statistic_by_name)
    """Statistic of the items that gives the score: `mean` of `x`; `spearman`, `pearson`, `matthews`, `f1`,
    `average-precision` or `v-measure` of `x` and `y`; the function of such a name (`sentbed.statistics`); or a
    function of a module, `f(x)` or `f(x, y)`."""
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
    """`(n,)`: identities of what is drawn independently, by `sentbed.helpers.identities`. Items of one
    identity, such as several pairs from one passage, are drawn together; an item that several tasks have has
    the same identity in each, so that it counts once in their mean. None if each item is on its own, in this
    task alone."""

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
        """Return the interval of the score over its items that studies report: Student's, from `components`.

        It ends where the statistic does, such as at 0 and 100 for F1. `level` is between 0 and 1. Only the
        statistic of a plugin needs `draws`, and the `seed` of their generator. None if nothing is known of the
        spread: every group has one item, or all items are alike.

        Raises:
            RunError: if the items cannot be used, or the level or number of draws is none.
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
        """Return the least and the largest value that the score can have; infinite where they are not known.

        A mean of items that are 0 or 1, such as right or wrong, is a share.
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
        """Return how much each item moves the score, `(n,)`: the derivative with respect to its count.

        The values of a group sum to 0. Zero where the statistic is not defined, as a correlation with a
        constant.

        Raises:
            RunError: if the items cannot be used, or the statistic is a plugin's, of whose derivatives nothing
                is known.
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
        """Return the part of the score that is due to the choice of items; None if every group has one item.

        They are made of influences, or for the statistic of a plugin of `draws` resamples.

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
        # The variance of each group's part, if those of single items are alike; of one item it is not known.
        variances = [1 / size for size in repeated]
        if self.weighted:
            variances = [*repeated]
        degrees = satterthwaite(
            [(part, size - 1) for part, size in zip(variances, repeated, strict=True)]
        )
        # The squares of n influence values, and resamples of n items, give (n - 1) / n of the variance.
        seen = sum(
            part * (size - 1) / size
            for part, size in zip(variances, repeated, strict=True)
        )
        values = values * math.sqrt(sum(variances) / seen)
        return ItemComponents(values, (Block(len(values), degrees),), names)

    def resample(self, draws: int, seed: int = 0) -> Floats:
        """Draw the items anew, with replacement and within each group, and return the score of each draw.

        Items of one cluster are drawn together. `(draws,)`.

        Raises:
            RunError: if the items cannot be used, or there are fewer than two draws.
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
            for count in self._draw_counts(rng, groups, width).T:
                drawn = [
                    tuple(
                        np.repeat(column, count[group.members])
                        for column in group.columns
                    )
                    for group in groups
                ]
                scores.append(self._score(groups, drawn))
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
        """Name of the statistic; that of a plugin's function is `MODULE:FUNCTION`."""
        if not callable(self.statistic):
            return self.statistic
        # An object that can be called has no name of its own.
        name = getattr(self.statistic, "__qualname__", repr(self.statistic))
        return f"{self.statistic.__module__}:{name}"

    def require_usable(self) -> None:
        """Raise `RunError` if there is no score: unknown statistic, columns of unlike length, not finite."""
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
        """Return the score of columns, one tuple a group."""
        statistic = self.statistic
        if isinstance(statistic, str):
            statistic = STATISTICS[statistic]
        total = 0.0
        for group, of_group in zip(groups, columns, strict=True):
            total += group.share * float(statistic(*of_group))
        return self.scale * total

    def _independent(self, group: ItemGroup) -> int:
        """Return the number of independent items of a group: its clusters, or its items."""
        import numpy as np

        if self.clusters is None:
            return len(group.members)
        return len(np.unique(self.clusters[group.members]))

    def _draw_counts(
        self, rng: np.random.Generator, groups: list[ItemGroup], width: int
    ) -> NDArray[np.int64]:
        """Return the number of times each item was drawn, `(n, width)`."""
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
    """Yield how many resamples of `count` items to hold at a time."""
    size = max(1, _COUNTS_AT_ONCE // count)
    for start in range(0, draws, size):
        yield min(size, draws - start)
