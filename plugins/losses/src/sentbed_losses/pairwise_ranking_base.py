"""The base class of `cosent` and `angle`, the losses that rank pairs of texts by their scores."""

from __future__ import annotations

from typing import Literal

import attrs

from sentbed_losses.columns import HARD_NEGATIVES
from sentbed_losses.scored_pair_base import ScoredPairs
from sentbed_losses.temperature import fixed_temperature


@attrs.frozen
class Ranking(ScoredPairs):
    """A loss over all pairs of rows whose scores differ. The formula is in the docstring of `CoSENT`."""

    temperature: float = attrs.field(
        default=0.05,
        validator=fixed_temperature,
    )
    """Divisor of the similarities, > 0. Both papers multiply by 20 instead, which is a temperature of 0.05."""
    rows: Literal["scored", "triplets"] = "scored"
    """Kind of the data. `scored`: pairs with a column `score`. `triplets`: rows with hard negatives and without
    scores; a row's positive gets the score 1, each of its hard negatives the score 0."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns of scored pairs or of triplets."""
        if self.rows == "scored":
            return super().columns
        return frozenset({"anchor", "positive", "negative"})

    @property
    def takes(self) -> frozenset[str]:
        """Further negatives of triplets."""
        if self.rows == "scored":
            return frozenset()
        return frozenset(HARD_NEGATIVES) - self.columns

    @property
    def numbers(self) -> frozenset[str]:
        """The column of scores, which triplets do not have."""
        if self.rows == "scored":
            return super().numbers
        return frozenset()
