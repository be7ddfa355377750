"""The base class of losses over pairs of texts with a score."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import Loss, LossTraits

from sentbed_losses.columns import SCORE


@attrs.frozen
class ScoredPairs(Loss):
    """A loss over pairs of texts with a score."""

    papers: ClassVar[tuple[str, ...]]
    """BibTeX keys of the papers that introduced the loss."""

    @property
    def traits(self) -> LossTraits:
        """The columns of the loss: pairs with a score."""
        return LossTraits(
            cites=self.papers,
            needs=frozenset({"anchor", "positive", SCORE}),
            takes=frozenset(),
            numbers=frozenset({SCORE}),
        )

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int:
        """Return 0, since no anchor is compared with candidates."""
        return 0
