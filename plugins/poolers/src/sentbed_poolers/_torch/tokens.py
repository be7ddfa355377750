"""The states of all tokens."""

from __future__ import annotations

from sentbed.protocols import TokenStates, TokenVectors
from torch import nn


class TokensPooling(nn.Module):
    """See `sentbed_poolers.tokens.Tokens`."""

    def forward(self, states: TokenStates) -> TokenVectors:
        """Return the last layer's states `(batch, length, width)`, and which are of tokens."""
        vectors, mask = states.last_hidden_state, states.attention_mask
        if mask is None:
            mask = vectors.new_ones(vectors.shape[:2])
        # What stands in the place of padding may be anything, and NaN times 0 is NaN.
        counts = mask.bool()
        return TokenVectors(vectors.masked_fill(~counts[..., None], 0.0), counts)
