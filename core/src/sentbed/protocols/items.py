"""The items from which a score was computed, such as the pairs of a test set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import attrs
from attrs.validators import in_

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Statistic: TypeAlias = Literal[
    "average-precision",
    "f1",
    "matthews",
    "mean",
    "pearson",
    "spearman",
]
"""A statistic that computes a score from items. Only `mean` has no predictions."""


@attrs.frozen(eq=False)
class Items:
    """The items from which a score was computed, and the statistic that computes the score.

    Reports compute confidence intervals from them, and compare encoders item by item. Encoders that are scored on
    the same data by the same protocol have the same items in the same order.

    Raises:
        ValueError: if the statistic is unknown, or `x`, `y`, groups and clusters do not fit together. They must
            be arrays of finite numbers of the same length, at least 1.
    """

    statistic: Statistic = attrs.field(validator=in_(get_args(Statistic)))
    """Statistic that computes the score: `mean` of `x`, any other of `x` and `y`."""
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

    Items in the same cluster, such as pairs from one passage, count as one. An item that occurs in several tasks
    has the same cluster in each task, so that it counts once in their mean. None if all items are independent and
    occur only in this task.
    """

    def __attrs_post_init__(self) -> None:
        import numpy as np

        if (self.y is None) != (self.statistic == "mean"):
            raise ValueError(
                f"found items of `{self.statistic}`; give `y` with every statistic except `mean`"
            )

        count = max(1, len(self.x))
        for name in ("x", "y", "groups", "clusters"):
            column = getattr(self, name)
            if column is None and name != "x":
                continue
            is_column = isinstance(column, np.ndarray) and column.shape == (count,)
            if (
                not is_column
                or column.dtype.kind not in "biuf"
                or not np.isfinite(column).all()
            ):
                raise ValueError(
                    f"`{name}` of the items is {column!r:.80}, expected an array of {count} finite numbers"
                )
