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
        hidden: torch.Tensor = states.last_hidden_state
        if states.attention_mask is None:
            return torch.mean(hidden, dim=1, dtype=torch.float32)
        mask: torch.Tensor = states.attention_mask.to(torch.float32)
        # A product of matrices adds up without a masked copy of the states.
        total = torch.einsum("bl,blw->bw", mask, hidden.to(torch.float32))
        return total / mask.sum(dim=1, keepdim=True)
