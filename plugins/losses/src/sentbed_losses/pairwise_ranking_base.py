"""The base class of `cosent` and `angle`, the losses that rank pairs of texts by their scores."""

from __future__ import annotations

from typing import Literal

import attrs
from sentbed.protocols import LossTraits

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
    def traits(self) -> LossTraits:
        """The columns of the loss: pairs with a score, or rows with hard negatives."""
        if self.rows == "scored":
            return super().traits

        needs = frozenset({"anchor", "positive", "negative"})
        takes = frozenset(HARD_NEGATIVES) - needs
        return LossTraits(
            cites=self.papers,
            needs=needs,
            takes=takes,
        )
