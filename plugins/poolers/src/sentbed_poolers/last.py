"""The pooler `last`."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import Module, Pooler


@attrs.frozen
class Last(Pooler):
    """The state of the last real token: in a causal model the only one that has seen the whole text.

    Source: PromptEOL, section 3.1 (last token, without a prompt).
    """

    name = "last"
    cites: ClassVar[tuple[str, ...]] = ("jiang2023prompteol",)
    pooling = "lasttoken"

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors `(batch, width)`."""
        from sentbed_poolers._torch.last import LastPooling

        return LastPooling()
