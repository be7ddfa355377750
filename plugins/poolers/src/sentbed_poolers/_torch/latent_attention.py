"""The module of the pooler `latent-attention`."""

from __future__ import annotations

import torch
from sentbed.protocols import TokenStates
from torch import Tensor, nn
from torch.nn import functional

from sentbed_poolers._torch.mean import mean_of_tokens

WIDENING = 4
"""Width of the gated layer, relative to that of a token state."""


class LatentAttentionPooling(nn.Module):
    """Returns the mean of the token states after attention to latents and a gated layer, `(batch, width)`.

    The formulas are in the docstring of `sentbed_poolers.latent_attention.LatentAttention`. The new state of a
    token does not depend on other tokens, so only the mean needs the mask.
    """

    def __init__(
        self,
        width: int,
        latents: int,
        heads: int,
        head_width: int,
    ) -> None:
        super().__init__()
        inner = heads * head_width
        self.heads = heads
        self.latents = nn.Parameter(torch.randn(latents, width))
        self.token_norm = nn.LayerNorm(width)
        self.latent_norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, inner, bias=False)
        self.key_value = nn.Linear(width, 2 * inner, bias=False)
        self.out = nn.Linear(inner, width, bias=False)
        self.inner_norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 2 * WIDENING * width)
        self.narrow = nn.Linear(WIDENING * width, width)

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        hidden: Tensor = states.last_hidden_state.float()
        hidden = hidden + self._attend(self.token_norm(hidden))
        value, gate = self.widen(self.inner_norm(hidden)).chunk(2, dim=-1)
        hidden = hidden + self.narrow(value * functional.gelu(gate))
        return mean_of_tokens(hidden, states.attention_mask)

    def _attend(self, hidden: Tensor) -> Tensor:
        """Return the result of the tokens' attention to the latents, `(batch, length, width)`."""
        query = self._split_heads(self.query(hidden))

        batch = query.shape[0]
        keys_and_values = self.key_value(self.latent_norm(self.latents))[None]
        keys, values = keys_and_values.chunk(2, dim=-1)
        key = self._split_heads(keys).expand(batch, -1, -1, -1)
        value = self._split_heads(values).expand(batch, -1, -1, -1)

        attended = functional.scaled_dot_product_attention(query, key, value)
        output: Tensor = self.out(attended.transpose(1, 2).flatten(2))
        return output

    def _split_heads(self, rows: Tensor) -> Tensor:
        """Return `(batch, rows, heads * head width)` as `(batch, heads, rows, head width)`."""
        return rows.view(*rows.shape[:2], self.heads, -1).transpose(1, 2)
