"""The module of the poolers `last`, `prompt` and `prompt-eol`."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenStates
from torch import Tensor, nn


class LastPooling(nn.Module):
    """Returns the state of the last real token of each text, `(batch, width)`."""

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        hidden: Tensor = states.last_hidden_state
        if states.attention_mask is None:
            return hidden[:, -1]

        batch, length, _ = hidden.shape
        positions = torch.arange(length, device=hidden.device)
        place = (states.attention_mask.long() * positions).amax(dim=1)
        return hidden[torch.arange(batch, device=hidden.device), place]
