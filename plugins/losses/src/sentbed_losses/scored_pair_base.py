"""The base class of losses over pairs of texts with a score."""

from __future__ import annotations

import attrs
from sentbed.protocols import Loss

from sentbed_losses.columns import SCORE


@attrs.frozen
class ScoredPairs(Loss):
    """A loss over pairs of texts with a score."""

    @property
    def columns(self) -> frozenset[str]:
        """A pair of texts and its score."""
        return frozenset({"anchor", "positive", SCORE})

    @property
    def takes(self) -> frozenset[str]:
        """No further columns."""
        return frozenset()

    @property
    def numbers(self) -> frozenset[str]:
        """The column of scores."""
        return frozenset({SCORE})
