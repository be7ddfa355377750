"""The pooler `latent-attention`."""

from __future__ import annotations

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import Module, Pooler


@attrs.frozen
class LatentAttention(Pooler):
    """The mean of token states that have attended to trained latent vectors.

    Let H `(length, width)` be the token states, and L `(latents, width)` the latents:

        H1 = H + Attention(LN(H), LN'(L))
        H2 = H1 + W2 (x * GELU(gate)) with (x, gate) = W1 LN''(H1)

    In the attention, H gives the queries, and L the keys and values; its layers have no biases. The output of
    W1 is 8 times as wide as a state. The vector is the mean of H2 over the real tokens, special tokens
    included. The initial latents are drawn from N(0, 1).

    Source: NV-Embed (Lee et al., 2024), section 3.1, but as in the released model, which has residual sums and
    norms that the paper's equations lack. The released model also leaves the tokens of an instruction out of
    the mean, and normalises the vector (`head = { normalize = true }`).
    """

    name = "latent-attention"
    cites = ("lee2024nvembed",)

    latents: int = attrs.field(default=512, validator=ge(1))
    """Number of latent vectors, >= 1; 512 in NV-Embed."""
    heads: int = attrs.field(default=8, validator=ge(1))
    """Number of attention heads, >= 1; 8 in NV-Embed."""
    head_width: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Width of a head; default: the width of a token state, as in NV-Embed (4096)."""

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors `(batch, width)`."""
        from sentbed_poolers._torch.latent_attention import LatentAttentionPooling

        return LatentAttentionPooling(
            width, self.latents, self.heads, self.head_width or width
        )
