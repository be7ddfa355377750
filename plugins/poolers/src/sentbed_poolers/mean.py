"""The pooler `mean`."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import Module


@attrs.frozen
class Mean:
    """The mean of the last layer's states over the real tokens, special tokens included.

    Source: Sentence-T5, section 3.1 (Enc-mean); Sentence-BERT's default.
    """

    name: ClassVar[str] = "mean"
    cites: ClassVar[tuple[str, ...]] = ("ni2022sentencet5", "reimers2019sbert")
    pooling: ClassVar[str] = "mean"

    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, width)`."""
        from sentbed_poolers._torch.mean import MeanPooling

        return MeanPooling()
