"""Classes for the sizes of modules and the costs of their passes, which `sentbed plan` counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from sentbed.protocols import Tokenizer


@attrs.frozen
class Lengths:
    """Sums over some texts: their number, their lengths, and their squared lengths.

    The cost of a pass over the texts is linear in these sums; see `Cost`.
    """

    texts: float = 0.0
    tokens: float = 0.0
    """Sum of the lengths in tokens."""
    squares: float = 0.0
    """Sum of the squared lengths."""

    def __add__(self, other: Lengths) -> Lengths:
        return Lengths(
            self.texts + other.texts,
            self.tokens + other.tokens,
            self.squares + other.squares,
        )

    def __mul__(self, factor: float) -> Lengths:
        return Lengths(self.texts * factor, self.tokens * factor, self.squares * factor)


@attrs.frozen
class Cost:
    """Cost of a pass: `once`, plus `text + token * length + pair * length**2` for each text."""

    once: float = 0.0
    text: float = 0.0
    token: float = 0.0
    pair: float = 0.0

    def of(self, lengths: Lengths) -> float:
        """Return the cost of a pass over texts of these lengths, without padding."""
        return (
            self.once
            + self.text * lengths.texts
            + self.token * lengths.tokens
            + self.pair * lengths.squares
        )


@attrs.frozen(eq=False)
class BackboneSize:
    """Size of a backbone, and the cost of its passes."""

    parameters: int
    """Number of parameters, including adapters; tied weights count once."""
    trained: Mapping[str, tuple[int, ...]]
    """Shapes of the trained parameters, by name."""
    weight_bytes: int
    copy_bytes: int
    """Size in bytes of the copy of the weights for encoding.

    It is 0 if no copy is made, since not all weights are fp32, or since they are on their devices already."""
    width: int
    """Dimension of a token state."""
    inner: int
    """Largest output width of a linear layer, usually of the first layer of a block's MLP."""
    blocks: int
    """Number of transformer blocks."""
    max_length: int
    """Maximum length in tokens."""
    forward: Cost
    """Floating-point operations of a forward pass; a multiply-add counts as two."""
    backward: Cost
    """Floating-point operations of the backward pass; zero if the backbone is not trained."""
    activations: Cost
    """Bytes kept for the backward pass. Its `once` are copies of weights in another precision."""
    origin: Mapping[str, Any]
    """Origin of the backbone, such as its model and revision."""
    tokenizer: Tokenizer | None
    """Tokenizer; None if its files are not on this machine."""


@attrs.frozen
class LossSize:
    """Size of a loss, and the cost of its forward and backward pass for a batch."""

    trained: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict)
    """Shapes of the parameters, by name."""
    state_bytes: int = 0
    """Size in bytes of the state that it keeps between steps."""
    activation_bytes: int = 0
    """Bytes kept for the backward pass."""
    flops: float = 0.0
    """Floating-point operations of its forward and backward pass."""
