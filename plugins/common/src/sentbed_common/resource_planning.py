"""Sizes and costs of components, known without loading them, for `sentbed plan`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import attrs
from sentbed.protocols import Backbone, Loss, Pooler, Runtime, Tokenizer


@attrs.frozen
class OutlineContext:
    """Conditions for which a backbone is outlined."""

    needs: frozenset[str] = frozenset()
    """Needs of the pooler; see `BuildContext.needs`."""
    precision: str = "fp32"
    """Precision of computation: `fp32`, `bf16` or `fp16`; trained weights are fp32."""
    device: str = "cpu"
    """`cpu`, `cuda` or `tpu`; determines the attention kernels."""
    training: bool = True
    """Whether to include backward pass and activations."""
    readings: tuple[tuple[int, ...], ...] = ()
    """Layers that prompts choose; see `BuildContext.readings`."""


@attrs.frozen
class Cost:
    """Cost of a pass over `n` texts of equal length: `once + n * (text + token*length + pair*length**2)`."""

    once: float = 0.0
    text: float = 0.0
    token: float = 0.0
    pair: float = 0.0

    def of(self, texts: float, length: float) -> float:
        """Return the cost of one pass over `texts` texts of `length` tokens."""
        return self.once + texts * (
            self.text + self.token * length + self.pair * length**2
        )


@attrs.frozen(eq=False)
class Outline:
    """Dimensions of a backbone, from its configuration."""

    parameters: int
    """Number of parameters, including adapters; shared weights count once."""
    trained: Mapping[str, tuple[int, ...]]
    """Shapes of the trained parameters, by name."""
    weight_bytes: int
    """Size in bytes of the weights, in their precision or in 4 bits."""
    copy_bytes: int
    """Size in bytes of the copy for encoding in the context's precision; 0 if there is none."""
    width: int
    """Dimension of a token state."""
    layers: int
    inner: int | None
    """Width of the feed-forward layers; None if the configuration has it under no usual name."""
    heads: int | None
    vocabulary: int
    max_length: int
    """Maximum length in tokens."""
    forward: Cost
    """Floating-point operations of a forward pass, two per multiply-add."""
    backward: Cost
    """Floating-point operations of the backward pass; zero if the context is not for training."""
    activations: Cost
    """Bytes kept for the backward pass; `once` is for copies of weights in another precision."""
    source: str
    """Source of these numbers: `config.json in DIR`, `size = "base"`."""
    at_most: str = ""
    """Clause on why the real numbers may be lower; empty if they are exact."""
    tokenizer: Tokenizer | None = None
    """Tokenizer, if available locally."""


@attrs.frozen
class Sketch:
    """Size and cost of a pooler or a loss."""

    trained: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict)
    """Shapes of the parameters, by name."""
    state_bytes: int = 0
    """Size in bytes of a loss's state between steps."""
    activation_bytes: int = 0
    """Bytes that a loss keeps for its backward pass."""
    flops: float = 0.0
    """Floating-point operations of a loss's forward and backward pass."""


@attrs.frozen
class Device:
    """Device of a plan, with its speed."""

    kind: str
    """`cpu`, `cuda` or `tpu`."""
    name: str
    precision: str
    """Precision in effect: `fp32`, `bf16` or `fp16`."""
    count: int = 1
    """Total number of devices on all machines."""
    parallel: str = "ddp"
    """`ddp` (every device holds all weights) or `fsdp` (each holds a share)."""
    memory: int | None = None
    """Memory in bytes of one device, or of the machine for `cpu`; None if unknown."""
    libraries: int = 0
    """Memory in bytes used before anything is built."""
    flops: float | None = None
    """Peak floating-point operations per second of one device in this precision; None if unknown."""
    bandwidth: float | None = None
    """Memory bandwidth of one device in bytes per second; None if unknown."""
    source: str = ""
    """Source of `flops` and `bandwidth`."""
    share: tuple[float, float] = (0.3, 0.6)
    """Range of the share of `flops` that training reaches."""
    share_source: str = ""
    """Source of `share`."""
    step_seconds: float = 0.0
    """Minimum duration of a step in seconds."""
    token_budget: int = 4096
    """Tokens per batch for encoding; see `Engine`."""


class PlannedBackbone(Backbone):
    """Backbone whose size and cost are known before it is built."""

    __slots__ = ()

    @abstractmethod
    def outline(self, context: OutlineContext) -> Outline:
        """Return its dimensions, from its configuration alone.

        Raises a `SentbedError` that explains why they cannot be determined here.
        """


class PlannedRuntime(Runtime):
    """Runtime that knows its devices, and the cost of poolers and losses on them."""

    __slots__ = ()

    @abstractmethod
    def outline(self, on: str | None = None) -> Device:
        """Return this machine's device, or the one named `on`.

        Raises a `SentbedError` that explains why it cannot be described here.
        """

    @abstractmethod
    def sketch_pooler(self, pooler: Pooler, width: int) -> Sketch:
        """Return the size and cost of a pooler's module over token states of this width."""

    @abstractmethod
    def sketch_loss(
        self, loss: Loss, width: int, batch_size: int, columns: frozenset[str]
    ) -> Sketch:
        """Return the size and cost of a loss's module over vectors of this width."""
