"""The pooler `first`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module, Pooler


@attrs.frozen
class First(Pooler):
    """The state of the first token: BERT's [CLS] without MLP, Sentence-T5's Enc-first.

    Source: Sentence-T5, section 3.1. In SimCSE, it is [CLS] without the MLP, as used for testing.
    """

    name = "first"
    cites = ("ni2022sentencet5",)
    needs = frozenset({"bidirectional"})
    pooling = "cls"

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors `(batch, width)`."""
        from sentbed_poolers._torch.first import FirstPooling

        return FirstPooling()
