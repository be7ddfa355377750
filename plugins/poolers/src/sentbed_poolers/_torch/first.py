"""First-token pooling."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenStates


class FirstPooling(torch.nn.Module):
    """`(batch, length, width)` -> the state of token 0, `(batch, width)`."""

    def forward(self, states: TokenStates) -> torch.Tensor:
        """Pool."""
        first: torch.Tensor = states.last_hidden_state[:, 0]
        return first
