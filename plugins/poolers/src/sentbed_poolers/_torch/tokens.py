"""The module of the pooler `tokens`."""

from __future__ import annotations

from sentbed.protocols import TokenStates, TokenVectors
from torch import nn


class TokensPooling(nn.Module):
    """Returns the last layer's states `(batch, length, width)`, and a mask of the real tokens."""

    def forward(self, states: TokenStates) -> TokenVectors:
        """Return the token vectors."""
        vectors, mask = states.last_hidden_state, states.attention_mask
        if mask is None:
            mask = vectors.new_ones(vectors.shape[:2])

        is_token = mask.bool()
        # The states of padding may be NaN, which stays NaN when it is multiplied by 0.
        vectors = vectors.masked_fill(~is_token[..., None], 0.0)
        return TokenVectors(vectors, is_token)
