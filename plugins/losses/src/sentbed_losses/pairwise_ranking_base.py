"""The fields that the losses over the order of scores share."""

from __future__ import annotations

from typing import Literal

import attrs
from sentbed.protocols import LossTraits

from sentbed_losses.columns import HARD_NEGATIVES
from sentbed_losses.scored_pair_base import ScoredPairs
from sentbed_losses.temperature import fixed_temperature


@attrs.frozen
class Ranking(ScoredPairs):
    """A loss over all pairs of rows whose scores differ; `CoSENT` has the formula."""

    temperature: float = attrs.field(default=0.05, validator=fixed_temperature)
    """The divisor of the similarities, > 0: 1 / 20 in both papers, where it is a scale of 20."""
    rows: Literal["scored", "triplets"] = "scored"
    """`scored`: pairs with a column `score`. `triplets`: rows with hard negatives and no score; a row's
    positive has score 1, each of its hard negatives 0."""

    @property
    def traits(self) -> LossTraits:
        """Return the columns the loss takes: scored pairs, or rows with hard negatives."""
        if self.rows == "scored":
            return super().traits

        needs = frozenset({"anchor", "positive", "negative"})
        takes = frozenset(HARD_NEGATIVES) - needs
        return LossTraits(cites=self.papers, needs=needs, takes=takes)
