"""The module of the pooler `first`."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenStates
from torch import Tensor, nn


class FirstPooling(nn.Module):
    """Returns the state of the first real token of each text, `(batch, width)`."""

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        hidden: Tensor = states.last_hidden_state
        if states.attention_mask is None:
            return hidden[:, 0]
        # `argmax` returns the first of equal values. It does not accept a boolean mask.
        place = states.attention_mask.long().argmax(dim=1)
        return hidden[torch.arange(hidden.shape[0], device=hidden.device), place]
