"""The module of the pooler `max`."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenStates
from torch import Tensor, nn


class MaxPooling(nn.Module):
    """Returns the largest value of each dimension over the real tokens, `(batch, width)`."""

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        hidden = states.last_hidden_state.float()
        if states.attention_mask is not None:
            padding = ~states.attention_mask.bool().unsqueeze(-1)
            hidden = hidden.masked_fill(padding, -torch.inf)

        vectors: Tensor = hidden.amax(dim=1)
        return vectors
