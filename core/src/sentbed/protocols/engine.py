"""Runtimes, the engines they build, and the head of an encoder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import attrs
from attrs.validators import and_, deep_iterable, ge, le, optional

from sentbed.protocols.components import (
    Backbone,
    BuiltBackbone,
    Component,
    Loss,
    Optimizer,
    Pooler,
    Schedule,
    Similarity,
)
from sentbed.protocols.tokens import Module, RaggedVectors, TokenBatch, TokenIds
from sentbed.protocols.traits import RuntimeTraits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class EncoderParts(Protocol):
    """An encoder in a recipe, as components see it; a `sentbed.tools.EncoderRecipe`."""

    @property
    def backbone(self) -> Backbone:
        """Its backbone."""

    @property
    def backbones(self) -> tuple[Backbone, ...]:
        """Its backbone, and the same with the layers that its prompts choose."""

    @property
    def pooler(self) -> Pooler:
        """Its pooler."""

    @property
    def head(self) -> Head:
        """Its head."""

    @property
    def prompts(self) -> Sequence[object]:
        """Its prompts, at least one: without a prompt in the recipe, the default."""

    @property
    def max_length(self) -> int:
        """Maximum tokens per sentence."""

    @property
    def similarity(self) -> Similarity | None:
        """Similarity that its texts are compared by; None for the cosine."""


class Transform(Component):
    """Affine map of sentence vectors that is fitted after training instead of being trained."""

    __slots__ = ()

    def misfits(self, encoder: EncoderParts) -> Iterator[str]:
        """Yield why it cannot be fitted to an encoder."""
        return iter(())

    @abstractmethod
    def output_width(self, width: int) -> int:
        """Return the dimension of its vectors, given its input's. Raises `ModelError` if it is too small."""

    def texts(self, width: int) -> Sequence[str]:
        """Return the texts to fit it on; called before training. Raises `DataError` if there are too few."""
        return ()

    @abstractmethod
    def fit(self, vectors: Any, backbone: BuiltBackbone) -> tuple[Any, Any]:
        """Return NumPy arrays `mean` `(width,)` and `matrix` `(width, output_width)` for (x - mean) @ matrix.

        `vectors`, float32 `(texts, width)`, are the vectors of `texts` before the head's transform, cut and
        normalisation. Raises `ModelError` with a remedy if they cannot be fitted.
        """


WIDEST = 1 << 20
"""Largest width of a layer in a head."""


@attrs.frozen
class Head:
    """Operations after pooling: linear layers, transform, truncation and normalisation, in this order.

    `projection`: width of a linear projection, or None for none; `bias`: whether linear layers have a bias
    (Sentence-T5 has none); `normalize`: L2-normalise the vector; `hidden`: widths of linear layers before the
    projection, each followed by `activation`; `dimensions`: number of leading dimensions to keep when
    encoding (training uses all; see the loss `matryoshka`); `transform`: an affine map that is fitted after
    the last stage and not used in training.
    """

    projection: int | None = attrs.field(
        default=None, validator=optional(and_(ge(1), le(WIDEST)))
    )
    bias: bool = False
    normalize: bool = False
    hidden: tuple[int, ...] = attrs.field(
        default=(), validator=deep_iterable(and_(ge(1), le(WIDEST)))
    )
    activation: Literal["gelu", "none", "relu", "tanh"] = "none"
    dimensions: int | None = attrs.field(default=None, validator=optional(ge(1)))
    transform: Transform | None = None

    def __attrs_post_init__(self) -> None:
        if self.hidden and self.projection is None:
            raise ValueError(
                "`hidden` layers stand before a projection; add `projection = N`"
            )
        if self.activation != "none" and not self.hidden:
            raise ValueError(
                "an `activation` follows `hidden` layers, and there is none; add `hidden = [N]`"
            )
        if (kept := self.dimensions or 0) > (width := self.projection or kept):
            raise ValueError(
                f"`dimensions` keeps {kept} of the {width} of `projection`; keep fewer"
            )


class SharedWork:
    """Optional methods of a placed encoder that shares work between texts or between encoders."""

    shares_prefix: bool = False
    """Whether `encode` accepts a batch with a `prefix`."""
    twin: Path | None = None
    """Directory of a saved encoder with the same backbone weights, whose files `save` may hard-link."""

    def beside(self, others: Sequence[PlacedEncoder]) -> PlacedEncoder | None:
        """Return an encoder that concatenates the vectors of this and `others` along the width.

        All were assembled from the same built backbone, so that one forward pass serves all. Vectors must be
        bit-identical to those of each encoder's `encode`; return None if that cannot be guaranteed.
        """
        return None

    def fingerprints(self) -> Sequence[str | None] | None:
        """Return the fingerprints of the encoders joined by `beside`; None to have each encoder asked."""
        return None


class PlacedEncoder(SharedWork):
    """Encoder on an engine's device: backbone, pooler and head.

    A subclass must have `width`, `encode`, `transformed` and `save`, and `encode_tokens` if it supports poolers
    with `output = "tokens"`.
    """

    width: int
    """Dimension of a sentence vector."""
    trained_width: int | None = None
    """Dimension in training, if it may differ from `width`, because of `Head.dimensions`, a transform or the
    pooler."""
    parameter_counts: tuple[int, int] | None = None
    """Number of all parameters and of trainable ones; None if the engine does not count them."""
    fitted_on: Mapping[str, Any] | None = None
    """Facts on the texts that the head's transform was fitted on; None if it is not fitted."""
    asynchronous: bool = False
    """Whether `encode_batches` leaves the host idle; texts are then tokenised ahead in a thread."""
    module: Module = None
    """On PyTorch engines: backbone, pooler and head as one torch module in fp32, called as
    `module(input_ids, attention_mask, **TokenBatch.keywords)`, with the parts `backbone`, `pooler`,
    `projection`, `transform` (each the identity if there is none) and `normalize: bool`; call
    `weights_changed()` after changing weights."""

    @property
    def protocol(self) -> Mapping[str, Any]:
        """JSON-serialisable entries for every score's protocol, such as the calibration of int8 weights.

        They are added to those of `BuiltBackbone.protocol`.
        """
        return {}

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Return sentence vectors `(batch, width)`, in eval mode, without gradient."""
        raise NotImplementedError

    def encode_tokens(self, batch: TokenBatch) -> RaggedVectors:
        """Return the token vectors of each text, in eval mode; for a pooler with `output = "tokens"`."""
        raise NotImplementedError

    def encode_batches(
        self, batches: Iterable[TokenBatch]
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the result of `encode` for each batch, in order.

        Later batches may be consumed before the vectors of one are yielded.
        """
        return map(self.encode, batches)

    def plan(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]] | None:
        """Yield the row indices of each batch for texts of these lengths; None to use `plan_batches`.

        For devices that compile each shape of a batch.
        """
        return None

    def fingerprint(self) -> str | None:
        """Return a hash of all weights and of the code that computes vectors from tokens; None if unknown.

        Encoders with equal fingerprints must give equal vectors, which the vector store then shares.
        """
        return None

    def broken_weight(self) -> str | None:
        """Return the name of a weight that is NaN or infinite; None if there is none, or it is not checked.

        Checking vectors is not enough: an attention kernel may ignore NaN.
        """
        return None

    def transformed(
        self, fit: Any = None, on: Mapping[str, Any] | None = None
    ) -> PlacedEncoder:
        """Return this encoder with the result of `Transform.fit`; without `fit`, the encoder without transform.

        The weights are shared. `on` becomes `fitted_on` of the new encoder, which `save` keeps.
        """
        raise NotImplementedError

    def save(self, directory: Path) -> Mapping[str, str] | None:
        """Write files that `Engine.assemble(..., saved=directory)` restores; may return their SHA-256."""
        raise NotImplementedError


@attrs.frozen
class StepResult:
    """Result of one optimiser step."""

    loss: float
    learning_rate: float
    grad_norm: float
    """L2 norm of the gradient before clipping."""
    metrics: Mapping[str, float] = attrs.field(factory=dict)
    interrupted: str | None = None
    """Why the run should end, if another process of the engine received a signal; the step has been taken."""
    fault: str = ""
    """Part that produced the first NaN or infinite number, if there is one and the engine knows."""


@attrs.frozen(eq=False)
class Training:
    """Arguments of a trainer."""

    loss: Loss
    optimizer: Optimizer
    schedule: Schedule
    total_steps: int
    towers: Mapping[str, str]
    """Column of texts -> name of the encoder trained on it."""
    max_grad_norm: float = 1.0
    """L2 norm to which gradients are clipped; 0 disables clipping."""
    micro_batch: int | None = None
    """Number of rows whose activations are held at a time (gradient caching, Gao et al., 2021); None means
    the whole batch. Either way the gradient is that of the whole batch."""
    ensembles: Mapping[str, tuple[int, Literal["mean", "concatenate"]]] = attrs.field(
        factory=dict
    )
    """Encoder -> its number of prompts, and how a row's vectors are combined for the loss. With several prompts,
    a column has the texts of all rows with the first prompt, then with the second, and so on."""
    ema: float | None = None
    """Decay of a moving average of the weights, for `Trainer.swap_average`; None for no average."""


Columns: TypeAlias = Mapping[str, "TokenIds | NDArray[Any]"]
"""A batch: column -> tokens to encode with gradient, vectors of a frozen tower (float32 `(batch, width)`),
numbers (float32 `(batch,)`), or class indices (int64 `(batch,)`); `COLUMN.id` -> the ids of a column's texts
(int64 `(batch,)`); `PROGRESS` -> a float32 scalar."""


class Trainer:
    """Takes the optimiser steps of one stage."""

    def step(self, columns: Columns) -> StepResult:
        """Take one step: forward pass, loss, gradient, update.

        `columns` is the whole batch, also with several devices: the loss sees all vectors, as on one device.
        A step with a NaN or infinite loss or gradient changes no weight and no state, but counts as a step of
        the schedule.
        """
        raise NotImplementedError

    def gradients(
        self, columns: Columns
    ) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return a batch's loss and its gradients before clipping, by parameter name, without taking a step.

        Names are `ENCODER.NAME` and `loss.NAME`, NAME being the torch parameter's. Dropout draws random numbers
        as in `step`; nothing else changes. For comparing engines, and for diagnosis.
        """
        raise NotImplementedError

    def swap_average(self) -> None:
        """Swap the encoders' trained weights with their moving average; a second call swaps them back.

        The average starts with the initial weights. After each step that changed weights it becomes
        `ema * average + (1 - ema) * weights`. Called only if `Training.ema` is set.
        """
        raise NotImplementedError

    def save(self, directory: Path) -> None:
        """Write everything that later steps depend on into the empty `directory`.

        This includes trained weights, the optimiser, the loss with its state, moving averages, the number of
        steps and the state of every random generator.
        """
        raise NotImplementedError

    def load(self, directory: Path) -> None:
        """Restore what `save` wrote. Raises `ModelError` if it does not fit this trainer."""
        raise NotImplementedError


class Engine:
    """Places modules and encodes batches, on one or several devices.

    An engine that also trains is a `TrainingEngine`; the runtime of one that does not sets
    `RuntimeTraits.untrainable`. Core uses one engine in one process and passes it whole batches. An engine
    with several devices or processes distributes rows and gathers vectors itself. `docs/engines.md` describes
    the contract, and `sentbed_testing` compares engines with each other.
    """

    token_budget: int
    """Tokens per batch at which this device encodes fastest."""
    device: Any = "cpu"
    """torch device for evaluators that train a classifier."""

    def report_to(self, say: Callable[[str], None]) -> None:
        """Set a callback for messages to the user, such as that a batch was halved for want of memory."""

    def describe(self) -> Mapping[str, Any]:
        """Return the device, `precision` (recorded with every score) and threads in effect."""
        raise NotImplementedError

    def counters(self) -> Mapping[str, float]:
        """Return counters so far: peak `device_memory_gib`; `compiled_shapes` and `compile_seconds` if the
        engine compiles; and the engine's own."""
        raise NotImplementedError

    def seed(self, seed: int) -> None:
        """Seed all random generators of initialisation and dropout, including torch's on the host."""
        raise NotImplementedError

    def assemble(
        self,
        backbone: BuiltBackbone,
        pooler: Pooler,
        head: Head,
        saved: Path | None = None,
    ) -> PlacedEncoder:
        """Build pooler and head, and move everything to the device."""
        raise NotImplementedError


class TrainingEngine(Engine):
    """An engine that also takes training steps."""

    def trainer(
        self, encoders: Mapping[str, PlacedEncoder], training: Training
    ) -> Trainer:
        """Return a trainer of `encoders`, which this engine assembled, named as in `training.towers`.

        Their vectors have equal widths. The loss is built before other random draws, so that its weights are
        the same on every engine for the same seed. Raises `RunError` if the encoders have nothing to train.
        """
        raise NotImplementedError


@attrs.frozen(eq=False)
class EncodingWork:
    """The encoding that a run will do, for a runtime that chooses another runtime for it."""

    recipe: Any
    """The recipe, a `sentbed.tools.Recipe`; it can be pickled."""
    texts: Callable[[], Mapping[str, Sequence[str]]]
    """Returns encoder -> texts of its evaluations; there may be none."""
    say: Callable[[str], None]
    """Callback for messages to the user, since the choice may take minutes."""


@attrs.frozen
class RuntimeChoice:
    """The runtime that a run uses."""

    runtime: Runtime
    facts: Mapping[str, Any] = attrs.field(factory=dict)
    """JSON-serialisable reasons for `runtime_choice` in the run's manifest; empty if nothing was chosen."""


class Runtime(Component):
    """Device and precision on which a recipe runs.

    A run calls `launch`, `serve` and `chosen` before `build`. The first two are for runtimes with several
    processes, the third for a runtime that chooses another one.
    """

    __slots__ = ()

    @property
    def traits(self) -> RuntimeTraits:
        """Number of processes, and other capabilities."""
        return RuntimeTraits()

    def misfits(self, backbone: Backbone, pooler: Pooler, head: Head) -> Iterator[str]:
        """Yield reasons why it cannot run an encoder of these parts, each a sentence with a remedy.

        Called for each encoder of a recipe, and before an encoder is loaded. It must not import heavy
        libraries.
        """
        return iter(())

    @abstractmethod
    def build(self) -> Engine:
        """Claim the device and return its engine. Raises `RuntimeUnavailableError` if that is impossible."""

    def unavailable(self) -> str | None:
        """Return why it cannot be used on this machine, with a remedy; None if it probably can.

        Called before a run, and by `sentbed check`, whose recipe may be meant for another machine. It must
        neither import heavy libraries nor claim the device.
        """
        return None

    def variants(self) -> Iterable[Runtime]:
        """Return the settings of this runtime that the runtime `fastest` tries, such as its precisions.

        Called on the runtime with default fields. `fastest` skips variants that cannot be built here.
        """
        return (self,)

    def chosen(self, work: EncodingWork) -> RuntimeChoice:
        """Return the runtime that a run uses instead; by default this one.

        Called once a run, after the data have been read and before anything is built. Raises `RunError` or
        `RuntimeUnavailableError`.
        """
        return RuntimeChoice(self)

    def with_threads(self, threads: int) -> Runtime:
        """Return this runtime limited to `threads` threads, for one of several workers on a machine.

        Return it unchanged if it has no such limit, or the recipe sets the number of threads.
        """
        return self

    def launch(self, command: Sequence[str]) -> int | None:
        """Start every process with `command`, wait for them, and return the exit code.

        Return None if there is nothing to start: there is only one process, or this is one of them.
        """
        return None

    def serve(self) -> bool:
        """In any but the first of several processes, serve the first one's engine, then return True.

        In the first process, or the only one, return False: it runs the recipe and writes the files.
        """
        return False
