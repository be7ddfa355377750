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
)
from sentbed.protocols.tokens import Module, RaggedVectors, TokenBatch, TokenIds
from sentbed.protocols.traits import RuntimeTraits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class EncoderParts(Protocol):
    """The table of an encoder in a recipe, as far as a component sees it; a `sentbed.tools.EncoderRecipe`."""

    @property
    def backbone(self) -> Backbone:
        """Its backbone."""

    @property
    def backbones(self) -> tuple[Backbone, ...]:
        """Its backbone, and the same with other layers that prompts choose."""

    @property
    def pooler(self) -> Pooler:
        """Its pooler."""

    @property
    def head(self) -> Head:
        """Its head."""

    @property
    def prompts(self) -> Sequence[object]:
        """Its prompts, one or several, also where none is written."""


class Transform(Component):
    """Affine map of sentence vectors that is computed after training, not trained."""

    __slots__ = ()

    def misfits(self, encoder: EncoderParts) -> Iterator[str]:
        """Yield why it cannot be fitted to an encoder."""
        return iter(())

    @abstractmethod
    def output_width(self, width: int) -> int:
        """Return the dimension of its vectors, given its input's. Raises `ModelError` if it is too small."""

    def texts(self, width: int) -> Sequence[str]:
        """Return the texts to fit it on, read before training. Raises `DataError` if there are too few."""
        return ()

    @abstractmethod
    def fit(self, vectors: Any, backbone: BuiltBackbone) -> tuple[Any, Any]:
        """Return NumPy's `mean` `(width,)` and `matrix` `(width, output_width)`: x becomes (x - mean) matrix.

        `vectors` `(texts, width)`, float32, are those of `texts`, before transform, cut and norm of the head.
        Raises `ModelError` with a remedy if they allow no fit.
        """


WIDEST = 1 << 20
"""Numbers of the longest vector, of any layer of a head."""


@attrs.frozen
class Head:
    """Operations after pooling: linear layers, transform, choice of dimensions, and norm, in this order.

    `projection`: width of a linear projection, or None for none; `bias`: whether it has one (Sentence-T5 has
    none); `normalize`: L2-normalise the vector; `hidden`: widths of linear layers before the projection, with
    its `bias`, each followed by `activation`; `dimensions`: how many of the first dimensions are kept when
    encoding, as the loss `matryoshka` trains for, while training sees all; `transform`: a map that is fitted
    after the last stage, which training does not see either.
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
    """What a placed encoder has if it does work once that several texts or several encoders have in common."""

    shares_prefix: bool = False
    """Whether `encode` accepts a batch with a `prefix`."""
    twin: Path | None = None
    """A saved encoder on the same built backbone with the same weights, whose files `save` may link."""

    def beside(self, others: Sequence[PlacedEncoder]) -> PlacedEncoder | None:
        """Return an encoder that concatenates its own vectors and those of `others` along the width.

        All were assembled from the same built backbone, which is run once. Each vector is bit-identical to
        that from the encoder's own `encode`; return None if that cannot be guaranteed.
        """
        return None

    def fingerprints(self) -> Sequence[str | None] | None:
        """Return the fingerprints of the encoders joined by `beside`; if None, each encoder is asked."""
        return None


class PlacedEncoder(SharedWork):
    """Encoder on an engine's device: backbone, pooler and head.

    `width`, `encode`, `transformed` and `save` are the least; `encode_tokens` is for poolers of token vectors.
    `SharedWork` is for engines that share work.
    """

    width: int
    """Dimension of a sentence vector."""
    trained_width: int | None = None
    """Dimension in training, if it may differ from `width`: `Head.dimensions` cuts vectors when encoding, a
    transform or a pooler may give them another width."""
    parameter_counts: tuple[int, int] | None = None
    """Number of its parameters, and of those that training changes; None where the engine does not count."""
    fitted_on: Mapping[str, Any] | None = None
    """What the head's transform was fitted on; None if it is not fitted."""
    asynchronous: bool = False
    """Whether `encode_batches` leaves the host free: texts are then tokenised ahead in a thread."""
    module: Module = None
    """On PyTorch engines: backbone, pooler and head as one torch module in fp32, called as
    `module(input_ids, attention_mask, **TokenBatch.keywords)`, with the parts `backbone`, `pooler`,
    `projection`, `transform` (each the identity if there is none) and `normalize: bool`; call
    `weights_changed()` after changing weights."""

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Entries for every score's protocol: how vectors are computed, such as the calibration of int8.

        They can be written to JSON, and are added to those of `BuiltBackbone.protocol`.
        """
        return {}

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Return sentence vectors `(batch, width)`, in eval mode, without gradient."""
        raise NotImplementedError

    def encode_tokens(self, batch: TokenBatch) -> RaggedVectors:
        """Return the vectors of the tokens of each text, if its pooler gives these, as `encode` does."""
        raise NotImplementedError

    def encode_batches(
        self, batches: Iterable[TokenBatch]
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the result of `encode` for each batch, in order.

        Further batches may be consumed before the vectors of one are yielded.
        """
        return map(self.encode, batches)

    def plan(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]] | None:
        """Yield the row indices of each batch for texts of these lengths, if the device compiles each shape.

        If None, `plan_batches` is used.
        """
        return None

    def fingerprint(self) -> str | None:
        """Return a hash of all weights and of the code between tokens and vector.

        Encoders with equal fingerprints give equal vectors. None means unknown: the store is not used.
        """
        return None

    def broken_weight(self) -> str | None:
        """Return the name of a weight that is NaN or infinite.

        Vectors may be finite all the same: an attention kernel may take NaN for no weight at all. None means
        that there is none, or that the engine does not look.
        """
        return None

    def transformed(
        self, fit: Any = None, on: Mapping[str, Any] | None = None
    ) -> PlacedEncoder:
        """Return this encoder with the result of `Transform.fit`; without, one of the transform's input.

        The weights are shared; `on` becomes its `fitted_on`, which `save` keeps.
        """
        raise NotImplementedError

    def save(self, directory: Path) -> Mapping[str, str] | None:
        """Write what `Engine.assemble(..., saved=directory)` restores; may return its files' SHA-256."""
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
    """Reason to end the run if another process of the engine was asked to; the step has been taken."""
    fault: str = ""
    """What gave the first number that is not finite, if there is one and the engine knows."""


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
    """Encoder -> its number of prompts, and what a loss sees of a row's vectors. With several prompts, a
    column has the texts of all rows under the first one, then under the second, and so on."""
    ema: float | None = None
    """Decay of a moving average of the weights, for `Trainer.swap_average`; None for no average."""


Columns: TypeAlias = Mapping[str, "TokenIds | NDArray[Any]"]
"""A batch, by column: tokens to encode with gradient; float32 `(batch, width)`, vectors of a frozen tower;
float32 `(batch,)`, numbers; int64 `(batch,)`, class indices, and under `COLUMN.id` the numbers of a column's
texts; or under `PROGRESS` a float32 scalar."""


class Trainer:
    """Takes the optimiser steps of one stage."""

    def step(self, columns: Columns) -> StepResult:
        """Take one step: forward pass, loss, gradient, update.

        `columns` is the whole batch, for any number of devices: the loss sees all vectors, as on one device.
        A step with a non-finite loss or gradient changes no weight and no state, but counts as a step of the
        schedule.
        """
        raise NotImplementedError

    def gradients(
        self, columns: Columns
    ) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return the loss of a batch and its gradients before clipping, by parameter name; take no step.

        Names are `ENCODER.NAME` and `loss.NAME`, with the names in the torch modules. Dropout is drawn as in
        `step`; nothing else changes: `encode` is in eval mode afterwards and the loss's state is unchanged.
        For tests of one engine against another, and for diagnosis.
        """
        raise NotImplementedError

    def swap_average(self) -> None:
        """Exchange the encoders' trained weights with their moving average; a second call changes them back.

        The average begins with the weights of before the first step and becomes, after each step that
        changed weights, `ema * average + (1 - ema) * weights`. Called only if `Training.ema` is given.
        """
        raise NotImplementedError

    def save(self, directory: Path) -> None:
        """Write everything that determines further steps into the empty `directory`.

        This includes trained weights, the optimiser, the loss with its state, moving averages, the number of
        steps and the state of every random generator.
        """
        raise NotImplementedError

    def load(self, directory: Path) -> None:
        """Restore what `save` wrote. Raises `ModelError` if it does not fit this trainer."""
        raise NotImplementedError


class Engine:
    """Places modules and encodes batches, on one or several devices.

    One that also takes training steps is a `TrainingEngine`; the runtime of one that does not says so in
    `RuntimeTraits.untrainable`. Core uses one engine in one process and passes it whole batches. An engine
    with several devices or processes distributes the rows and gathers the vectors itself, invisibly to
    callers. `docs/engines.md` describes the contract, and `sentbed_testing` compares engines with each other.
    """

    token_budget: int
    """Tokens per batch for encoding at which this device is fastest."""
    device: Any = "cpu"
    """torch device for evaluators that train a classifier."""

    def report_to(self, say: Callable[[str], None]) -> None:
        """Register `say`, which is called with messages for the user, such as that a batch was halved."""

    def describe(self) -> Mapping[str, Any]:
        """Return the device, `precision` (recorded with every score) and threads in effect."""
        raise NotImplementedError

    def counters(self) -> Mapping[str, float]:
        """Return counters so far: peak `device_memory_gib`, `compiled_shapes` and `compile_seconds` if the
        engine compiles, and others of the engine."""
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
    """What a run encodes, for a runtime that chooses another one by it."""

    recipe: Any
    """The recipe, a `sentbed.tools.Recipe`; it can be pickled."""
    texts: Callable[[], Mapping[str, Sequence[str]]]
    """Returns the texts of the evaluations by the encoder that reads them, which may be none."""
    say: Callable[[str], None]
    """Called with messages for the user, as the choice may take minutes."""


@attrs.frozen
class RuntimeChoice:
    """Runtime that a run takes."""

    runtime: Runtime
    facts: Mapping[str, Any] = attrs.field(factory=dict)
    """Why it was chosen, for `runtime_choice` in the run's manifest; JSON-serialisable, empty without choice."""


class Runtime(Component):
    """Device and precision on which a recipe runs.

    A run calls `launch`, `serve` and `chosen` before `build`; the first two are for runtimes with several
    processes, the third for one that chooses another.
    """

    __slots__ = ()

    @property
    def traits(self) -> RuntimeTraits:
        """Number of processes, and other capabilities."""
        return RuntimeTraits()

    def misfits(self, backbone: Backbone, pooler: Pooler, head: Head) -> Iterator[str]:
        """Yield why encoders of these parts cannot run on it as it is set, each a sentence with a remedy.

        Asked for each encoder of a recipe, and before an encoder is loaded, without heavy imports.
        """
        return iter(())

    @abstractmethod
    def build(self) -> Engine:
        """Claim the device and return its engine. Raises `RuntimeUnavailableError` if that is impossible."""

    def unavailable(self) -> str | None:
        """Return why nothing can run on it here, with a remedy; None if nothing is known to prevent it.

        It is asked before anything is run, and where a recipe is only checked, which may be meant for another
        machine: without heavy imports, and without claiming the device.
        """
        return None

    def variants(self) -> Iterable[Runtime]:
        """Return the runtime in each of the settings that the runtime `fastest` tries, such as its precisions.

        It is asked of the runtime with default settings. One that cannot be built here is left out there.
        """
        return (self,)

    def chosen(self, work: EncodingWork) -> RuntimeChoice:
        """Return the runtime that a run builds in its place, by default itself.

        Called once a run, after the data have been read and before anything is built. Raises `RunError` or
        `RuntimeUnavailableError`.
        """
        return RuntimeChoice(self)

    def with_threads(self, threads: int) -> Runtime:
        """Return the runtime limited to `threads` threads, for one of several workers.

        Return itself if it has no such limit, or the recipe sets the number of threads.
        """
        return self

    def launch(self, command: Sequence[str]) -> int | None:
        """Start every process with `command`, wait for them, and return the exit code.

        Return None if there is nothing to start: there is only one process, or this is one of them.
        """
        return None

    def serve(self) -> bool:
        """Serve the engine of the first process if this is another one of several.

        Return True after serving. Only the first process runs the recipe and writes files.
        """
        return False
