"""The loss `spread-out`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import attrs
from attrs.validators import ge, min_len
from sentbed.protocols import Loss, Module


@attrs.frozen
class SpreadOut(Loss):
    """A regulariser that spreads the vectors of a batch over the sphere, for use in a `sum`.

    In a column, let M1 be the mean and M2 the mean square of the cosines of all pairs of different rows.
    Vectors of width d that are distributed uniformly on the sphere have M1 = 0 and M2 = 1 / d. The loss is

        mean_weight * M1^2 + second_moment_weight * max(M2 - 1 / d, 0)

    averaged over the columns. The regulariser of EmbeddingGemma is the sum of M2 over anchors and positives: set
    `mean_weight = 0, excess = false, aggregation = "sum"`.

    Source: Zhang et al. 2017, section 3.
    """

    name = "spread-out"
    other_names = ("GlobalOrthogonalRegularizationLoss",)
    cites = ("zhang2017spreadout",)
    takes = frozenset()

    spread_columns: tuple[str, ...] = attrs.field(
        default=("anchor", "positive"),
        alias="columns",
        metadata={"key": "columns"},
        validator=min_len(1),
    )
    """Columns of texts whose vectors are spread out. Vectors of different columns are not compared."""
    mean_weight: float = attrs.field(default=1.0, validator=ge(0))
    """Weight of the squared mean M1^2, >= 0."""
    second_moment_weight: float = attrs.field(default=1.0, validator=ge(0))
    """Weight of the second moment M2, >= 0."""
    excess: bool = True
    """Whether the second term is max(M2 - 1 / d, 0). If false, it is M2."""
    aggregation: Literal["mean", "sum"] = "mean"
    """Whether the losses of the columns are averaged or added."""

    def check(self) -> Iterator[str]:
        """Yield a problem if both weights are 0."""
        if not self.mean_weight and not self.second_moment_weight:
            yield "`mean_weight` and `second_moment_weight` are both 0, which is no loss; give one of them"

    @property
    def columns(self) -> frozenset[str]:
        """The columns whose vectors are spread out."""
        return frozenset(self.spread_columns)

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(vectors)` and returns a `LossOutput`.

        Its metrics `mean` and `second_moment` are M1 and M2, averaged over the columns.
        """
        from sentbed_losses._torch.spread_out import SpreadOutLoss

        return SpreadOutLoss(
            columns=self.spread_columns,
            mean_weight=self.mean_weight,
            second_moment_weight=self.second_moment_weight,
            excess=self.excess,
            aggregation=self.aggregation,
        )
