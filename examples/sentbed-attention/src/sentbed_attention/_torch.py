"""The pooler as a torch module; imported by `build` only."""

from __future__ import annotations

import math

import torch
from sentbed import ModelError
from sentbed.protocols import BlockStates, TokenStates


class AttentionPooling(torch.nn.Module):
    """`(batch, length, width)` -> weighted means over the real tokens, `(batch, width)`; in fp32."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ModelError(
                f"the pooler `attention` has {heads} heads, and a token state of width {width} cannot be cut "
                "into as many equal parts; set `heads` to a number that divides the width"
            )
        self.query = torch.nn.Parameter(torch.zeros(heads, width // heads))

    def forward(self, states: TokenStates) -> torch.Tensor:
        """Return the sentence vectors."""
        hidden = states.last_hidden_state.float()
        heads, width = self.query.shape
        parts = hidden.unflatten(-1, (heads, width))
        scores = (parts * self.query).sum(dim=-1) / math.sqrt(width)
        if states.attention_mask is not None:
            scores = scores.masked_fill(states.attention_mask.unsqueeze(-1) == 0, float("-inf"))
        weights = scores.softmax(dim=1)
        pooled: torch.Tensor = (parts * weights.unsqueeze(-1)).sum(dim=1).flatten(1)
        return pooled


def prepend_mean(seen: BlockStates) -> torch.Tensor:
    """Return the states `(batch, length, width)`, with the mean of those behind the placeholder in its place."""
    states: torch.Tensor = seen.states
    places = torch.arange(states.shape[1], device=states.device)
    placeholder = seen.placeholder.unsqueeze(1)
    behind = ((places > placeholder) & (places <= seen.last.unsqueeze(1))).to(states.dtype).unsqueeze(-1)
    mean = (states * behind).sum(dim=1, keepdim=True) / behind.sum(dim=1, keepdim=True)
    return torch.where((places == placeholder).unsqueeze(-1), mean, states)
