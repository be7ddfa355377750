"""The loss `spread-out`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import attrs
from attrs.validators import ge, min_len
from sentbed.protocols import Loss, LossTraits, Module


@attrs.frozen
class SpreadOut(Loss):
    """A regulariser that spreads the vectors of a batch over the sphere, for use in a `sum`.

    Of the cosines of all pairs of different rows of a column, M1 is the mean and M2 the mean square.
    Uniformly distributed vectors of dimension d have M1 = 0 and M2 = 1 / d. The loss is

        mean_weight * M1^2 + second_moment_weight * max(M2 - 1 / d, 0)

    averaged over the columns. EmbeddingGemma's is M2 alone, summed over anchors and positives:
    `mean_weight = 0, excess = false, aggregation = "sum"`.

    Source: Zhang et al. 2017, section 3.
    """

    name = "spread-out"

    columns: tuple[str, ...] = attrs.field(
        default=("anchor", "positive"), validator=min_len(1)
    )
    """Columns of texts whose vectors are spread out, each by itself."""
    mean_weight: float = attrs.field(default=1.0, validator=ge(0))
    """Weight of the squared mean, >= 0."""
    second_moment_weight: float = attrs.field(default=1.0, validator=ge(0))
    """Weight of the second moment, >= 0."""
    excess: bool = True
    """Whether only what the second moment has above 1 / d counts."""
    aggregation: Literal["mean", "sum"] = "mean"
    """How the columns' terms are combined."""

    def check(self) -> Iterator[str]:
        """Yield what is wrong with these fields together."""
        if not self.mean_weight and not self.second_moment_weight:
            yield "`mean_weight` and `second_moment_weight` are both 0, which is no loss; give one of them"

    @property
    def traits(self) -> LossTraits:
        """Return the columns the loss takes: those of `columns`."""
        return LossTraits(
            cites=("zhang2017spreadout",),
            needs=frozenset(self.columns),
            takes=frozenset(),
        )

    def build(self, width: int) -> Module:
        """Return `module(vectors) -> LossOutput`.

        Metrics: `mean` and `second_moment`, the means over the columns of M1 and M2.
        """
        from sentbed_losses._torch.spread_out import SpreadOutLoss

        return SpreadOutLoss(
            columns=self.columns,
            mean_weight=self.mean_weight,
            second_moment_weight=self.second_moment_weight,
            excess=self.excess,
            aggregation=self.aggregation,
        )

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int:
        """Return 0: no anchor is compared with candidates."""
        return 0
