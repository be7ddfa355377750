"""Mean pooling over the first and the last layer."""

from __future__ import annotations

from sentbed.protocols import TokenStates
from torch import Tensor, nn

from sentbed_poolers._torch.given_state import required
from sentbed_poolers._torch.mean import mean_of_tokens


class MeanFirstLastPooling(nn.Module):
    """Layers, each `(batch, length, width)` -> the mean of two layers over the real tokens, `(batch, width)`.

    `first` is the index of the first layer: 0 for the embeddings, 1 for the first transformer layer. Sums are
    computed in fp32, as in `MeanPooling`.
    """

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        layers = required(states, "layers", "mean-first-last")
        hidden: Tensor = (layers[self.first].float() + layers[-1].float()) / 2
        return mean_of_tokens(hidden, states.attention_mask)
