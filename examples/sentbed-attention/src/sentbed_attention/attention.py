"""The pooler `attention`."""

from __future__ import annotations

from typing import ClassVar

import attrs
from attrs.validators import ge
from sentbed.protocols import Module, Pooler


@attrs.frozen
class Attention(Pooler):
    """A weighted mean of the token states, with weights that a learned query gives.

    A token state x of width d is cut into `heads` parts of equal width. With a learned query q_h for each
    part, token i has in part h the weight

        softmax_i( q_h . x_ih / sqrt(d / heads) )

    over the real tokens, and the vector is the weighted means of all parts, one after the other. Queries
    start at zero: before training it is the pooler `mean`.

    Source: a structured form of Lin et al. (2017), with one query in place of their two layers.
    """

    name: ClassVar[str] = "attention"

    heads: int = attrs.field(default=1, validator=ge(1))
    """Parts with a query each, at least 1; it divides the width of a token state."""

    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, width)`.

        Raises:
            ModelError: if `heads` does not divide the width.
        """
        from sentbed_attention._torch import AttentionPooling

        return AttentionPooling(width, self.heads)
