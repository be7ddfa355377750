"""The pooler `decoder`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module, Pooler


@attrs.frozen
class Decoder(Pooler):
    """The decoder's first output: the encoder reads the text, the decoder only the start token.

    Source: Sentence-T5, section 3.1 (EncDec-first).
    """

    name = "decoder"
    cites = ("ni2022sentencet5",)
    needs = frozenset({"decoder"})

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors `(batch, width)`."""
        from sentbed_poolers._torch.given_state import GivenState

        return GivenState("decoder_state", self.name)
