"""Runtimes and the engines that they build."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from sentbed.protocols.components import BuiltBackbone, Component, Loss, Optimizer, Pooler, Schedule
from sentbed.protocols.planning import Device, Sketch
from sentbed.protocols.tokens import Module, TokenBatch, TokenIds
from sentbed.protocols.traits import RuntimeTraits

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


class PlacedEncoder:
    """Backbone, pooler and head on the engine's device."""

    width: int
    """Width of a sentence vector."""
    shares_prefix: bool = False
    """Whether `encode` takes a batch with a `prefix`."""
    asynchronous: bool = False
    """Whether the device computes in `encode_batches` while the host goes on: texts are then tokenised in a
    thread, ahead of it."""
    module: Module = None
    """On engines of PyTorch: backbone, pooler and head as one torch module in fp32, called
    `module(input_ids, attention_mask)`, with the parts `backbone`, `pooler` and `projection` (an identity
    where the head has none) and `normalize: bool`; who changes weights in it calls `weights_changed()`."""

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Sentence vectors `(batch, width)`, in eval mode, without gradient."""
        raise NotImplementedError

    def encode_batches(self, batches: Iterable[TokenBatch]) -> Iterator[NDArray[np.float32]]:
        """Yield what `encode` returns for each batch, in their order.

        It may take further batches before it yields the vectors of one.
        """
        return map(self.encode, batches)

    def plan(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]] | None:
        """Yield which texts, of so many tokens, share a batch, for a device that compiles each shape.

        `plan_batches` decides where it returns None.
        """
        return None

    def fingerprint(self) -> str | None:
        """Return a hash of all weights and of the code between tokens and vector.

        Where two agree, so do their vectors. None where it cannot tell: none is taken from the store.
        """
        return None

    def beside(self, others: Sequence[PlacedEncoder]) -> PlacedEncoder | None:
        """Return an encoder of its own vectors and those of `others`, one after the other along the width.

        All were assembled from one built backbone, through which there is one pass. Each vector is, to the
        bit, what its own `encode` gives; None where that cannot be promised.
        """
        return None

    def fingerprints(self) -> Sequence[str | None] | None:
        """Return the fingerprint of each encoder whose vectors it gives (see `beside`); None: ask each."""
        return None

    def save(self, directory: Path) -> None:
        """Write backbone, pooler and head so that `Engine.assemble(..., saved=directory)` restores them."""
        raise NotImplementedError


@attrs.frozen
class StepResult:
    """What one optimiser step did."""

    loss: float
    learning_rate: float
    grad_norm: float
    """L2 norm of the gradient before clipping."""
    metrics: Mapping[str, float] = attrs.field(factory=dict)
    interrupted: str | None = None
    """Why the run is to end now, where another process of the engine was told to; the step has been taken."""


@attrs.frozen(eq=False)
class Training:
    """What a trainer is to do."""

    loss: Loss
    optimizer: Optimizer
    schedule: Schedule
    total_steps: int
    towers: Mapping[str, str]
    """Column of texts -> name of the encoder that is trained on it."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this L2 norm; 0 leaves them as they are."""
    micro_batch: int | None = None
    """Rows whose activations are held at a time (gradient caching, Gao et al., 2021); the whole batch where
    None. The gradient is that of the whole batch in either case."""


Columns: TypeAlias = Mapping[str, "TokenIds | NDArray[Any]"]
"""A batch by column: tokens to be encoded with gradient; float32 `(batch, width)`, vectors of a tower that is
not trained; or int64 `(batch,)`, the numbers of classes, and as `COLUMN.id` of the texts behind vectors."""


class Trainer:
    """One stage's optimiser over the encoders that it trains."""

    def step(self, columns: Columns) -> StepResult:
        """Forward, loss, gradient, update.

        `columns` is the whole batch, on however many devices: the loss sees all of its vectors, as one device
        would. A step whose loss or gradient is not finite changes no weight and no state; it counts as a step
        of the schedule all the same.
        """
        raise NotImplementedError

    def gradients(self, columns: Columns) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return loss and gradient of a batch, before clipping, by the name of each parameter; take no step.

        Names are `ENCODER.NAME` and `loss.NAME`, with the names in the torch modules. It draws dropout as
        `step` does, and changes nothing else: `encode` is in eval mode again, the loss's state is as it was.
        For tests of an engine against another, and for diagnosis.
        """
        raise NotImplementedError

    def save(self, directory: Path) -> None:
        """Write everything that decides the steps to come into the empty `directory`.

        Weights that are trained, the optimiser, the loss with its state, moving averages, the number of steps
        and the state of every random generator.
        """
        raise NotImplementedError

    def load(self, directory: Path) -> None:
        """Go on from what `save` wrote. Raises `ModelError` where it does not fit this trainer."""
        raise NotImplementedError


class Engine:
    """Places modules, encodes batches, takes training steps; on one device or on many.

    Core deals with one engine in one process, and hands it whole batches. Where an engine has several devices
    or processes, it is the engine that spreads rows over them and gathers vectors: nobody else can tell.
    `docs/engines.md` has the contract in words, and `sentbed_testing` holds one engine against another.
    """

    token_budget: int
    """Tokens a batch when encoding: where this device is fastest."""
    device: Any = "cpu"
    """In torch's words, for evaluators that train a classifier."""

    def report_to(self, say: Callable[[str], None]) -> None:
        """Call `say` from now on with what the user should know, such as that a batch was halved."""

    def describe(self) -> Mapping[str, Any]:
        """Device, `precision` (which every score carries) and threads, as they are in force."""
        raise NotImplementedError

    def counters(self) -> Mapping[str, float]:
        """What was used until now: `device_memory_gib`, the most that was held at once, `compiled_shapes` and
        `compile_seconds` where something is compiled, or counters of its own."""
        raise NotImplementedError

    def seed(self, seed: int) -> None:
        """Seed every generator that initialisation and dropout draw from, torch's on the host among them."""
        raise NotImplementedError

    def assemble(
        self, backbone: BuiltBackbone, pooler: Pooler, head: Head, saved: Path | None = None
    ) -> PlacedEncoder:
        """Build pooler and head, and put everything on the device."""
        raise NotImplementedError

    def trainer(self, encoders: Mapping[str, PlacedEncoder], training: Training) -> Trainer:
        """Prepare training of `encoders`, which this engine assembled, by their names in `training.towers`.

        They have one width. The loss is built before anything else draws, so that its weights are the same on
        every engine after the same seed. Raises `RunError` where nothing in the encoders can be trained.
        """
        raise NotImplementedError


class Runtime(Component):
    """Where it runs.

    A run calls `launch` and `serve` before `build`; both are for a runtime that takes several processes.
    """

    __slots__ = ()

    @property
    def traits(self) -> RuntimeTraits:
        """How many processes there are, and more."""
        return RuntimeTraits()

    @abstractmethod
    def build(self) -> Engine:
        """Claim the device. Raises `RuntimeUnavailableError` where the machine cannot do it."""

    def with_threads(self, threads: int) -> Runtime:
        """Return the runtime as it is where it may use so many threads, for one of several workers.

        Itself where it does not count threads, or its recipe says how many.
        """
        return self

    def launch(self, command: Sequence[str]) -> int | None:
        """Start each process with `command`, wait, and return the exit code.

        None where none is to be started: there is one process only, or this is one of them.
        """
        return None

    def serve(self) -> bool:
        """Where this process is one of several and not the first: do what the engine of the first one asks.

        Returns True when that has ended. Only the first process runs the recipe and writes.
        """
        return False

    def outline(self, on: str | None) -> Device | None:
        """Return this machine, or devices of the name `on`, for `sentbed plan`; None where it cannot tell."""
        return None

    def sketch_pooler(self, pooler: Pooler, width: int) -> Sketch | None:
        """Return what a pooler's module holds and costs where this runtime runs it; None: unknown."""
        return None

    def sketch_loss(self, loss: Loss, width: int, batch_size: int, columns: frozenset[str]) -> Sketch | None:
        """Return what a loss's module holds and costs where this runtime runs it; None: unknown."""
        return None
