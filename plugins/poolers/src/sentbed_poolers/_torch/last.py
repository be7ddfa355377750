"""Last-token pooling."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenStates
from torch import Tensor, nn


class LastPooling(nn.Module):
    """`(batch, length, width)` -> the state of the last real token, `(batch, width)`."""

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        hidden: Tensor = states.last_hidden_state
        if states.attention_mask is None:
            return hidden[:, -1]

        batch, length, _ = hidden.shape
        place = (
            states.attention_mask.long() * torch.arange(length, device=hidden.device)
        ).amax(dim=1)
        return hidden[torch.arange(batch, device=hidden.device), place]
