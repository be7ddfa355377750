"""Random token states with the masks that a tokenizer gives."""

from __future__ import annotations

import pytest
import torch
from sentbed.protocols import TokenStates


@pytest.fixture
def random_states():
    """Draw states for sentences of these lengths; padded tokens hold garbage, not zeros.

    `side` is where the padding is: the same sentences, wherever. `layers` are the embeddings and so many
    layers, the last of which is the last hidden state.
    """

    def draw(
        lengths,
        width=6,
        seed=0,
        side="right",
        layers=0,
    ):
        generator = torch.Generator().manual_seed(seed)
        longest = max(lengths)
        sentences = [
            torch.randn(layers + 1, length, width, generator=generator)
            for length in lengths
        ]
        drawn = 1000 * torch.randn(
            layers + 1, len(lengths), longest, width, generator=generator
        )
        mask = torch.zeros(len(lengths), longest, dtype=torch.long)
        for row, (sentence, length) in enumerate(zip(sentences, lengths, strict=True)):
            place = (
                slice(0, length)
                if side == "right"
                else slice(longest - length, longest)
            )
            drawn[:, row, place] = sentence
            mask[row, place] = 1
        return TokenStates(drawn[-1], mask, tuple(drawn) if layers else None)

    return draw
