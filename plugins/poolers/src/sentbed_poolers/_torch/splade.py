"""The module of the pooler `splade`."""

from __future__ import annotations

from sentbed.protocols import TokenStates
from torch import Tensor, nn


class SpladePooling(nn.Module):
    """Returns the maximum of log(1 + ReLU(logit)) over the real tokens, `(batch, vocabulary)`.

    The token states are logits, `(batch, length, vocabulary)`.
    """

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        logits: Tensor = states.last_hidden_state.float()
        if states.attention_mask is not None:
            # A logit of 0 gives a component of 0, the smallest possible.
            logits = logits * states.attention_mask.to(logits.dtype).unsqueeze(-1)
        # ReLU and logarithm are monotonic, so they can come after the maximum, where there are far fewer numbers.
        return logits.max(dim=1).values.relu().log1p()
