"""The module of the pooler `mean`."""

from __future__ import annotations

from sentbed.protocols import TokenStates
from torch import Tensor, nn


class MeanPooling(nn.Module):
    """Returns the mean of the states of the real tokens, `(batch, width)`.

    The sum is computed in fp32, since bf16 would lose about three bits for 64 tokens.
    """

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        return mean_of_tokens(states.last_hidden_state.float(), states.attention_mask)


def mean_of_tokens(hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Return the mean of states `(batch, length, width)` over the tokens in the mask, `(batch, width)`."""
    if attention_mask is None:
        return hidden.mean(dim=1)

    mask = attention_mask.float().unsqueeze(-1)
    return (hidden * mask).sum(dim=1) / mask.sum(dim=1)
