"""Mean pooling."""

from __future__ import annotations

from sentbed.protocols import TokenStates
from torch import Tensor, nn


class MeanPooling(nn.Module):
    """`(batch, length, width)` -> the mean over the tokens that the mask keeps, `(batch, width)`.

    The sum is computed in fp32: bf16 would lose about three bits at length 64.
    """

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        return mean_of_tokens(states.last_hidden_state.float(), states.attention_mask)


def mean_of_tokens(hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Return the mean over the tokens that the mask keeps, `(batch, width)`."""
    if attention_mask is None:
        return hidden.mean(dim=1)

    mask = attention_mask.float().unsqueeze(-1)
    return (hidden * mask).sum(dim=1) / mask.sum(dim=1)
