"""Traits of the losses over scored pairs."""

from __future__ import annotations

from sentbed.protocols import LossTraits

from sentbed_losses.columns import SCORE


def scored_pairs(*cites: str) -> LossTraits:
    """Return the traits of a loss over two texts and a score, without state."""
    return LossTraits(
        cites=cites,
        needs=frozenset({"anchor", "positive", SCORE}),
        takes=frozenset(),
        numbers=frozenset({SCORE}),
    )
