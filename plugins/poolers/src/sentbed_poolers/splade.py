"""The pooler `splade`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module, Pooler, PoolerTraits


@attrs.frozen
class Splade(Pooler):
    """One weight for each token of the vocabulary: how far the text speaks of it (SPLADE).

    For the logits w_ij of token j of the vocabulary at token i of the text, by the backbone's head for masked
    tokens, component j of the vector is max_i log(1 + ReLU(w_ij)), over the real tokens, special tokens
    included. No component is negative, and with the loss `flops` most become 0. Vectors are as wide as the
    vocabulary.

    Source: Formal et al. 2021 (SPLADE v2), equations 1 and 6.
    """

    name = "splade"
    traits = PoolerTraits(
        cites=("formal2021splade",), needs=frozenset({"logits"}), output="sparse"
    )

    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, width)`, where `width` is the size of the vocabulary."""
        from sentbed_poolers._torch.splade import SpladePooling

        return SpladePooling()
