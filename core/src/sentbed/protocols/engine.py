"""The engine: what a runtime builds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from sentbed.protocols.components import BuiltBackbone, Loss, Optimizer, Pooler, Schedule
from sentbed.protocols.tokens import TokenBatch, TokenIds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class Head:
    """What comes after pooling.

    `projection`: width of a linear projection, or None for none; `bias`: whether it has one (Sentence-T5 has
    none); `normalize`: L2-normalise the vector.
    """

    projection: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    bias: bool = False
    normalize: bool = False


class PlacedEncoder(Protocol):
    """Backbone, pooler and head on the engine's device.

    It may have `shares_prefix: bool`: whether `encode` takes a batch with a `prefix`.
    """

    width: int
    """Width of a sentence vector."""

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Sentence vectors `(batch, width)`, in eval mode, without gradient."""

    def save(self, directory: Path) -> None:
        """Write backbone, pooler and head so that `Engine.assemble(..., saved=directory)` restores them."""


@attrs.frozen
class StepResult:
    """What one optimiser step did."""

    loss: float
    learning_rate: float
    grad_norm: float
    """L2 norm of the gradient before clipping."""
    metrics: Mapping[str, float] = attrs.field(factory=dict)


class Trainer(Protocol):
    """One stage's optimiser over one encoder."""

    def step(self, columns: Mapping[str, TokenIds]) -> StepResult:
        """Forward, loss, gradient, update."""


class Engine(Protocol):
    """Places modules, encodes batches, takes training steps."""

    token_budget: int
    """Tokens a batch when encoding: where this device is fastest."""

    def describe(self) -> Mapping[str, Any]:
        """Device, `precision` (which every score carries) and threads, as they are in force."""

    def seed(self, seed: int) -> None:
        """Seed every generator that initialisation and dropout draw from."""

    def assemble(
        self, backbone: BuiltBackbone, pooler: Pooler, head: Head, saved: Path | None = None
    ) -> PlacedEncoder:
        """Build pooler and head, and put everything on the device."""

    def trainer(
        self,
        encoder: Any,
        loss: Loss,
        optimizer: Optimizer,
        schedule: Schedule,
        total_steps: int,
        max_grad_norm: float,
    ) -> Trainer:
        """Prepare training of `encoder`, which this engine assembled.

        Gradients are clipped to the L2 norm `max_grad_norm`; 0 leaves them as they are.
        """
