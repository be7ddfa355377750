"""The pooler `first`."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import Module


@attrs.frozen
class First:
    """The state of the first token: BERT's [CLS] without MLP, Sentence-T5's Enc-first.

    Source: Sentence-T5, section 3.1; SimCSE's [CLS] at test time without its MLP.
    """

    name: ClassVar[str] = "first"
    cites: ClassVar[tuple[str, ...]] = ("ni2022sentencet5",)
    needs: ClassVar[frozenset[str]] = frozenset({"bidirectional"})
    pooling: ClassVar[str] = "cls"

    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, width)`."""
        from sentbed_poolers._torch.first import FirstPooling

        return FirstPooling()
