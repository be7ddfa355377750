"""Max pooling."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenStates


class MaxPooling(torch.nn.Module):
    """`(batch, length, width)` -> the largest value over the tokens that the mask keeps, `(batch, width)`."""

    def forward(self, states: TokenStates) -> torch.Tensor:
        """Return the sentence vectors."""
        hidden = states.last_hidden_state.float()
        if states.attention_mask is not None:
            padding = ~states.attention_mask.bool().unsqueeze(-1)
            hidden = hidden.masked_fill(padding, -torch.inf)
        return hidden.amax(dim=1)
