"""Mean pooling."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenStates


class MeanPooling(torch.nn.Module):
    """`(batch, length, width)` -> the mean over the tokens that the mask keeps, `(batch, width)`.

    The sum is taken in fp32: in bf16 it would lose about three bits at length 64.
    """

    def forward(self, states: TokenStates) -> torch.Tensor:
        """Pool."""
        hidden: torch.Tensor = states.last_hidden_state.float()
        if states.attention_mask is None:
            return hidden.mean(dim=1)
        mask: torch.Tensor = states.attention_mask.float().unsqueeze(-1)
        total: torch.Tensor = (hidden * mask).sum(dim=1)
        return total / mask.sum(dim=1)
