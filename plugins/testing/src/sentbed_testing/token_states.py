"""Random token states for the contract of poolers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from sentbed.protocols import TokenStates

LENGTHS = (7, 2, 4, 1, 9)
"""Number of tokens of each sentence of a batch."""
LAYERS = 3
"""Number of layers, not counting the embeddings."""


def random_states(
    lengths: Sequence[int] = LENGTHS,
    width: int = 8,
    side: str = "right",
    needs: Collection[str] = (),
    more: int = 0,
    garbage: float = 1.0,
) -> TokenStates:
    """Return random token states of a batch of sentences. The states of a sentence do not depend on its padding.

    Args:
        lengths: number of tokens of each sentence, not counting padding.
        width: dimension of a token state.
        side: side of the padding, `right` or `left`.
        needs: optional fields that the states have: `layers`, `decoder` or `mask-token`.
        more: number of padding tokens after the longest sentence (before it, if `side` is `left`).
        garbage: standard deviation of the states of padding.
    """
    generator = torch.Generator().manual_seed(0)
    longest = max(lengths) + more
    shape = (LAYERS + 1, len(lengths), longest, width)
    layers = garbage * torch.randn(shape, generator=torch.Generator().manual_seed(1))
    mask = torch.zeros(len(lengths), longest, dtype=torch.long)
    for row, length in enumerate(lengths):
        start = 0
        if side == "left":
            start = longest - length
        sentence = torch.randn(LAYERS + 1, length, width, generator=generator)
        layers[:, row, start : start + length] = sentence
        mask[row, start : start + length] = 1

    decoder_state, mask_state = torch.randn(2, len(lengths), width, generator=generator)
    states = TokenStates(layers[-1], mask)
    if "layers" in needs:
        states = states._replace(layers=tuple(layers))
    if "decoder" in needs:
        states = states._replace(decoder_state=decoder_state)
    if "mask-token" in needs:
        states = states._replace(mask_state=mask_state)
    return states
