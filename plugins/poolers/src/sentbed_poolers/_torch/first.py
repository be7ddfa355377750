"""First-token pooling."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenStates
from torch import Tensor, nn


class FirstPooling(nn.Module):
    """`(batch, length, width)` -> the state of the first real token, `(batch, width)`."""

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        hidden: Tensor = states.last_hidden_state
        if states.attention_mask is None:
            return hidden[:, 0]
        # `argmax` does not accept a boolean mask; it returns the first of equal values.
        place = states.attention_mask.long().argmax(dim=1)
        return hidden[torch.arange(hidden.shape[0], device=hidden.device), place]
