"""SPLADE pooling of the vocabulary's logits."""

from __future__ import annotations

from sentbed.protocols import TokenStates
from torch import Tensor, nn


class SpladePooling(nn.Module):
    """Logits `(batch, length, vocabulary)` -> `(batch, vocabulary)`, the maximum of log(1 + ReLU(logit))."""

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        logits: Tensor = states.last_hidden_state.float()
        if states.attention_mask is not None:
            logits = logits * states.attention_mask.to(logits.dtype).unsqueeze(-1)
        # Both functions grow with the logit, so that the maximum may be taken first, of which far less is kept.
        return logits.max(dim=1).values.relu().log1p()
