"""The pooler `splade`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module, Pooler


@attrs.frozen
class Splade(Pooler):
    """One weight for each token of the vocabulary: how far the text speaks of it (SPLADE).

    The backbone's language-modelling head gives the logit w_ij of vocabulary token j at token i of the text.
    Component j of the vector is max_i log(1 + ReLU(w_ij)), over the real tokens, special tokens included. No
    component is negative, and training with the loss `flops` makes most of them 0. A vector is as wide as the
    vocabulary is large.

    Source: Formal et al. 2021 (SPLADE v2), equations 1 and 6.
    """

    name = "splade"
    cites = ("formal2021splade",)
    needs = frozenset({"logits"})
    output = "sparse"

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors `(batch, width)`.

        Here, `width` is the size of the vocabulary.
        """
        from sentbed_poolers._torch.splade import SpladePooling

        return SpladePooling()
