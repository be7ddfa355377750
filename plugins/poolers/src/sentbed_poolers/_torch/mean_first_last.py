"""The module of the pooler `mean-first-last`."""

from __future__ import annotations

from sentbed.protocols import TokenStates
from torch import Tensor, nn

from sentbed_poolers._torch.given_state import required
from sentbed_poolers._torch.mean import mean_of_tokens


class MeanFirstLastPooling(nn.Module):
    """Returns the mean of the states of two layers over the real tokens, `(batch, width)`.

    `first` is the index of the first of these layers: 0 for the embeddings, 1 for the first transformer layer.
    The other is the last layer. Sums are computed in fp32, as in `MeanPooling`.
    """

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        layers = required(states, "layers", "mean-first-last")
        hidden: Tensor = (layers[self.first].float() + layers[-1].float()) / 2
        return mean_of_tokens(hidden, states.attention_mask)
