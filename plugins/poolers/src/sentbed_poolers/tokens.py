"""The pooler `tokens`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module, Pooler


@attrs.frozen
class Tokens(Pooler):
    """The last layer's state of each real token, special tokens included, for late interaction (ColBERT).

    The encoder gives a vector for each token. The head is applied to each of them; ColBERT uses
    `head = { projection = 128, normalize = true }`. The similarity `maxsim` compares such vectors.

    Source: Khattab and Zaharia (2020), section 3.2.
    """

    name = "tokens"
    cites = ("khattab2020colbert",)
    output = "tokens"

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into `TokenVectors` `(batch, length, width)`."""
        from sentbed_poolers._torch.tokens import TokensPooling

        return TokensPooling()
