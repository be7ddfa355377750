"""The module of the pooler `weighted-mean`."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenStates
from torch import Tensor, nn


class WeightedMeanPooling(nn.Module):
    """Returns the mean of the states of the real tokens, weighted by their positions, `(batch, width)`.

    The sum is computed in fp32, as in `MeanPooling`.
    """

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        hidden: Tensor = states.last_hidden_state.float()
        # Positions are counted in the mask, since padding may be on either side.
        mask = torch.ones_like(hidden[..., 0])
        if states.attention_mask is not None:
            mask = states.attention_mask.float()

        positions = mask.cumsum(dim=1)
        weights = (positions * mask).unsqueeze(-1)

        return (hidden * weights).sum(dim=1) / weights.sum(dim=1)
