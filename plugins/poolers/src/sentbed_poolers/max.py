"""The pooler `max`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module, Pooler


@attrs.frozen
class Max(Pooler):
    """The largest value of each dimension over the real tokens, special tokens included.

    Source: Sentence-BERT (Reimers and Gurevych, 2019), section 3 (MAX).
    """

    name = "max"
    cites = ("reimers2019sbert",)
    pooling = "max"

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors `(batch, width)`."""
        from sentbed_poolers._torch.max import MaxPooling

        return MaxPooling()
