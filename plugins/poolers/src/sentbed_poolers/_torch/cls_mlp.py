"""First-token pooling with a dense layer and tanh."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenStates

from sentbed_poolers._torch.first import FirstPooling

INITIAL_DEVIATION = 0.02
"""Standard deviation of the initial weights: `initializer_range` of BERT and RoBERTa."""


class ClsMLPPooling(torch.nn.Module):
    """`(batch, length, width)` -> the first real token's state after the layer and tanh, `(batch, width)`."""

    def __init__(self, width: int, mlp_only_train: bool) -> None:
        super().__init__()
        self.first = FirstPooling()
        self.dense = torch.nn.Linear(width, width)
        torch.nn.init.normal_(self.dense.weight, std=INITIAL_DEVIATION)
        torch.nn.init.zeros_(self.dense.bias)
        self.mlp_only_train = mlp_only_train

    def forward(self, states: TokenStates) -> torch.Tensor:
        """Return the sentence vectors."""
        first: torch.Tensor = self.first(states)
        if self.mlp_only_train and not self.training:
            return first
        return torch.tanh(self.dense(first))
