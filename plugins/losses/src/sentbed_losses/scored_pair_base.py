"""The base class of losses over scored pairs."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import Loss, LossTraits

from sentbed_losses.columns import SCORE


@attrs.frozen
class ScoredPairs(Loss):
    """A loss over two texts and a score, without state."""

    papers: ClassVar[tuple[str, ...]]
    """Keys of the papers that introduced the loss."""

    @property
    def traits(self) -> LossTraits:
        """Return the columns the loss takes: scored pairs."""
        return LossTraits(
            cites=self.papers,
            needs=frozenset({"anchor", "positive", SCORE}),
            takes=frozenset(),
            numbers=frozenset({SCORE}),
        )

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int:
        """Return 0: a pair is compared with its score or with other pairs, no anchor with candidates."""
        return 0
