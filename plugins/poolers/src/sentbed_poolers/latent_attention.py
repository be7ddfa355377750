"""The pooler `latent-attention`."""

from __future__ import annotations

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import Module, Pooler, PoolerTraits


@attrs.frozen
class LatentAttention(Pooler):
    """The mean of token states that have attended to trained latent vectors.

    For token states H `(length, width)` and latents L `(latents, width)`:
    H1 = H + Attention(LN(H), LN'(L)), where the states ask and the latents are keys and values, without
    biases; H2 = H1 + W2 (x * GELU(gate)) with (x, gate) = W1 LN''(H1), W1 to 8 times the width; the vector is
    the mean of H2 over the real tokens, special tokens included. Latents are drawn from N(0, 1).

    Source: NV-Embed (Lee et al., 2024), section 3.1, in the form of the released model: the paper's equations
    have neither the residual sums nor the norms. The released model leaves an instruction's tokens out of
    the mean and normalises the vector (`head = { normalize = true }`).
    """

    name = "latent-attention"
    traits = PoolerTraits(cites=("lee2024nvembed",))

    latents: int = attrs.field(default=512, validator=ge(1))
    """Number of latent vectors, at least 1; NV-Embed has 512."""
    heads: int = attrs.field(default=8, validator=ge(1))
    """Number of attention heads, at least 1; NV-Embed has 8."""
    head_width: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Width of one head; default: that of a token state, as in NV-Embed (4096)."""

    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, width)`."""
        from sentbed_poolers._torch.latent_attention import LatentAttentionPooling

        return LatentAttentionPooling(
            width, self.latents, self.heads, self.head_width or width
        )
