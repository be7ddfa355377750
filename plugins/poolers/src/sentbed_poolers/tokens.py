"""The pooler `tokens`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module, Pooler, PoolerTraits


@attrs.frozen
class Tokens(Pooler):
    """The last layer's state of each real token, special tokens included, for late interaction (ColBERT).

    The encoder gives a vector of each token, which the head projects and normalises: ColBERT's are those of
    `head = { projection = 128, normalize = true }`. The similarity `maxsim` compares them.

    Source: Khattab and Zaharia (2020), section 3.2.
    """

    name = "tokens"
    traits = PoolerTraits(cites=("khattab2020colbert",), output="tokens")

    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> TokenVectors`, `(batch, length, width)` and their mask."""
        from sentbed_poolers._torch.tokens import TokensPooling

        return TokensPooling()
