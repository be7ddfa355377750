"""What components say before anything is loaded, for `sentbed plan`: see the methods that return these."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from sentbed.protocols.tokens import Tokenizer


@attrs.frozen
class OutlineContext:
    """What a backbone is to be outlined for."""

    needs: frozenset[str] = frozenset()
    """See `BuildContext.needs`."""
    precision: str = "fp32"
    """`fp32`, `bf16` or `fp16`: what training computes in; weights that are trained are fp32."""
    device: str = "cpu"
    """`cpu`, `cuda` or `tpu`: which attention kernels there are."""
    training: bool = True
    """Whether backward pass and activations are asked for."""


@attrs.frozen
class Cost:
    """Of a pass over `n` texts of one length: `once + n * (text + token * length + pair * length ** 2)`."""

    once: float = 0.0
    text: float = 0.0
    token: float = 0.0
    pair: float = 0.0

    def of(self, texts: float, length: float) -> float:
        """Return the cost of one pass over so many texts of this length."""
        return self.once + texts * (self.text + self.token * length + self.pair * length**2)


@attrs.frozen(eq=False)
class Outline:
    """A backbone as its configuration describes it."""

    parameters: int
    """Numbers in all its weights, adapters included; each weight once, however often it is used."""
    trained: Mapping[str, tuple[int, ...]]
    """Shapes of what a stage trains, by name."""
    weight_bytes: int
    """As the weights are held, in their precision or in 4 bits."""
    copy_bytes: int
    """Of the copy in the context's precision that encodes; 0 where the weights are used as they are."""
    width: int
    """Of a token state."""
    layers: int
    inner: int | None
    """Width of the feed-forward layers; None where it is not known by a usual name."""
    heads: int | None
    vocabulary: int
    max_length: int
    """Positions, in tokens."""
    forward: Cost
    """Floating-point operations of a forward pass: two a multiply-add."""
    backward: Cost
    """Of the backward pass through what is trained; nothing where training was not asked for."""
    activations: Cost
    """Bytes that are kept for the backward pass; `once` are copies of weights in another precision."""
    source: str
    """Where this was read: `config.json in DIR`, `size = "base"`."""
    at_most: str = ""
    """Why the real numbers may be lower, a clause; empty where they are exact."""
    tokenizer: Tokenizer | None = None
    """Where it is at hand."""


@attrs.frozen
class Sketch:
    """A pooler or a loss, without its weights."""

    trained: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict)
    """Shapes of its parameters, by name."""
    state_bytes: int = 0
    """Of a loss: what it keeps from step to step."""
    activation_bytes: int = 0
    """Of a loss: what it keeps for its backward pass."""
    flops: float = 0.0
    """Of a loss: operations of its forward and backward pass."""


@attrs.frozen
class Device:
    """Where it is to run, and how fast that is."""

    kind: str
    """`cpu`, `cuda` or `tpu`."""
    name: str
    precision: str
    """In force: `fp32`, `bf16` or `fp16`."""
    count: int = 1
    """Devices in all, on every machine."""
    parallel: str = "ddp"
    """`ddp`, every device holds all weights, or `fsdp`, each holds a share."""
    memory: int | None = None
    """Bytes of one device, or of the machine for `cpu`; None where unknown."""
    libraries: int = 0
    """Bytes that are taken before anything is built."""
    flops: float | None = None
    """Floating-point operations a second of one device in this precision, at best; None where unknown."""
    bandwidth: float | None = None
    """Bytes a second of one device's memory; None where unknown."""
    source: str = ""
    """How `flops` and `bandwidth` are known."""
    share: tuple[float, float] = (0.3, 0.6)
    """Of `flops`, what training reaches: from, to."""
    share_source: str = ""
    """How the share is known."""
    step_seconds: float = 0.0
    """What a step takes however small it is."""
    token_budget: int = 4096
    """See `Engine`."""
