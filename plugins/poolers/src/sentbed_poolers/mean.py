"""The pooler `mean`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module, Pooler


@attrs.frozen
class Mean(Pooler):
    """The mean of the last layer's states over the real tokens, special tokens included.

    Source: Sentence-T5, section 3.1 (Enc-mean); Sentence-BERT's default.
    """

    name = "mean"
    cites = ("ni2022sentencet5", "reimers2019sbert")
    pooling = "mean"

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors `(batch, width)`."""
        from sentbed_poolers._torch.mean import MeanPooling

        return MeanPooling()
