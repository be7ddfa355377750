"""The pooler `last`."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import Module


@attrs.frozen
class Last:
    """The state of the last real token: in a causal model the only one that has seen the whole text.

    Source: PromptEOL, section 3.1 (last token, without a prompt).
    """

    name: ClassVar[str] = "last"
    cites: ClassVar[tuple[str, ...]] = ("jiang2023prompteol",)
    needs: ClassVar[frozenset[str]] = frozenset()
    pooling: ClassVar[str] = "lasttoken"

    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, width)`."""
        from sentbed_poolers._torch.last import LastPooling

        return LastPooling()
