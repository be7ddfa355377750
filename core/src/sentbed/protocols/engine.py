"""Base classes of runtimes and of the engines, encoders and trainers that they build; the head of an encoder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs
from attrs.validators import and_, deep_iterable, ge, le, optional

from sentbed.protocols.components import (
    BuiltBackbone,
    Component,
    Loss,
    Optimizer,
    Pooler,
    Schedule,
)
from sentbed.protocols.tokens import Module, TokenBatch, TokenIds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Transform(Component):
    """Affine map of sentence vectors. It is not trained, but fitted to vectors after training."""

    __slots__ = ()

    @abstractmethod
    def output_width(self, width: int) -> int:
        """Return the dimension of the transformed vectors; `width` is that of the given vectors.

        Raises:
            ModelError: if `width` is too small.
        """

    def texts(self, width: int) -> Sequence[str]:
        """Return the texts on whose vectors the transform is fitted. Called before training.

        Raises:
            DataError: if there are too few texts for vectors of this dimension.
        """
        return ()

    @abstractmethod
    def fit(self, vectors: Any, backbone: BuiltBackbone) -> tuple[Any, Any]:
        """Return NumPy arrays `mean`, `(width,)`, and `matrix`, `(width, output_width)`.

        A vector `x` is transformed to `(x - mean) @ matrix`. `vectors`, float32 `(texts, width)`, are those of
        `texts`, before the transform, the truncation and the normalisation of the head.

        Raises:
            ModelError: if the transform cannot be fitted to these vectors. The message has a remedy.
        """


WIDEST = 1 << 20
"""Largest width of a layer in a head."""


@attrs.frozen
class Head:
    """What an encoder does with a vector after pooling: linear layers, transform, truncation, normalisation."""

    projection: int | None = attrs.field(
        default=None, validator=optional(and_(ge(1), le(WIDEST)))
    )
    """Width of a linear projection; None for no projection."""
    bias: bool = False
    """Whether the linear layers have a bias (those of Sentence-T5 have none)."""
    normalize: bool = False
    """Whether the vector is L2-normalised."""
    hidden: tuple[int, ...] = attrs.field(
        default=(), validator=deep_iterable(and_(ge(1), le(WIDEST)))
    )
    """Widths of linear layers before the projection."""
    activation: Literal["gelu", "none", "relu", "tanh"] = "none"
    """Activation after each of the `hidden` layers."""
    dimensions: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of leading dimensions to keep when encoding. Training uses all; see the loss `matryoshka`."""
    transform: Transform | None = None
    """Affine map that is fitted after the last stage. Training does not use it."""

    def __attrs_post_init__(self) -> None:
        if self.hidden and self.projection is None:
            raise ValueError(
                "`hidden` layers stand before a projection; add `projection = N`"
            )
        if self.activation != "none" and not self.hidden:
            raise ValueError(
                "an `activation` follows `hidden` layers, and there is none; add `hidden = [N]`"
            )
        kept, width = self.dimensions, self.projection
        if kept is not None and width is not None and kept > width:
            raise ValueError(
                f"`dimensions` keeps {kept} of the {width} of `projection`; keep fewer"
            )


class PlacedEncoder:
    """An encoder on an engine's device: backbone, pooler and head.

    A subclass must have `width`, `encode` and `save`, and for encoders with a transform `transformed`.
    """

    width: int
    """Dimension of a sentence vector."""
    trained_width: int | None = None
    """Dimension of a sentence vector in training, if it may differ from `width`.

    It differs because of `Head.dimensions`, a transform, or the pooler.
    """
    parameter_counts: tuple[int, int] | None = None
    """Number of all parameters, and of trainable parameters; None if the engine does not count them."""
    fitted_on: Mapping[str, Any] | None = None
    """Facts about the texts on which the head's transform was fitted; None if there is no fitted transform."""
    shares_prefix: bool = False
    """Whether `encode` accepts a batch with a `prefix`."""
    asynchronous: bool = False
    """Whether the host is idle during `encode_batches`. Later texts are then tokenised in a thread meanwhile."""
    module: Module = None
    """On PyTorch engines: backbone, pooler and head as one torch module in float32.

    It is called as `module(input_ids, attention_mask, **TokenBatch.keywords)` and has the submodules `backbone`,
    `pooler`, `projection` and `transform` (the last two are the identity if there is none), and the attribute
    `normalize: bool`. Call its `weights_changed()` after changing weights.
    """

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Entries for the protocol of every score, such as the calibration of int8 weights; values for JSON.

        They are added to the entries of `BuiltBackbone.protocol`.
        """
        return {}

    def encode(self, batch: TokenBatch) -> Any:
        """Return the vectors of a batch, computed in eval mode and without gradient.

        They are float32 `(batch, width)`, or a list of `(tokens, width)` for a pooler with `output = "tokens"`.
        """
        raise NotImplementedError

    def encode_batches(self, batches: Iterable[TokenBatch]) -> Iterator[Any]:
        """Yield the result of `encode` for each batch, in order.

        The method may consume later batches before it yields the vectors of an earlier one.
        """
        return map(self.encode, batches)

    def plan(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]] | None:
        """Yield the row indices of each batch for texts of these lengths; return None to use `plan_batches`.

        This is for devices that compile code for each shape of a batch.
        """
        return None

    def beside(self, others: Sequence[PlacedEncoder]) -> PlacedEncoder | None:
        """Return an encoder that concatenates the vectors of this encoder and of `others` along the width.

        All encoders were assembled from the same built backbone, so one forward pass of the backbone is enough.
        The vectors must be bit-identical to those that each encoder's `encode` returns. Return None if that
        cannot be guaranteed.
        """
        return None

    def fingerprint(self) -> str | None:
        """Return a hash of all weights and of how the engine computes with them; None if it is unknown.

        Encoders of one recipe and one code with equal fingerprints share the vectors in the vector store.
        """
        return None

    def transformed(
        self, fit: Any = None, on: Mapping[str, Any] | None = None
    ) -> PlacedEncoder:
        """Return an encoder with the same weights and another transform.

        `fit` is the result of `Transform.fit`; None means no transform. `on` has facts about the texts of the
        fit; it becomes `fitted_on` of the new encoder, and `save` writes it.
        """
        raise NotImplementedError

    def save(self, directory: Path) -> None:
        """Write the files from which `Engine.assemble(..., saved=directory)` restores the encoder."""
        raise NotImplementedError


@attrs.frozen
class StepResult:
    """Result of one optimiser step."""

    loss: float
    learning_rate: float
    grad_norm: float
    """L2 norm of the gradient before clipping."""
    metrics: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen(eq=False)
class Training:
    """Arguments of a trainer."""

    loss: Loss
    optimizer: Optimizer
    schedule: Schedule
    total_steps: int
    towers: Mapping[str, str]
    """For each column of texts that a trained encoder encodes, the name of the encoder."""
    max_grad_norm: float = 1.0
    """L2 norm to which gradients are clipped; 0 disables clipping."""
    micro_batch: int | None = None
    """Number of rows whose activations are in memory at a time (gradient caching, Gao et al., 2021).

    None means the whole batch. In both cases, the gradient is that of the whole batch.
    """
    ema: float | None = None
    """Decay of a moving average of the weights, for `Trainer.swap_average`; None for no average."""


Columns: TypeAlias = Mapping[str, "TokenIds | NDArray[Any]"]
"""A batch of training data, by column.

A column of texts has tokens to encode with gradient, or the vectors of a frozen encoder (float32 `(batch,
width)`). A column of numbers is float32 `(batch,)`, and the column of class indices int64 `(batch,)`.
`COLUMN.id` has a number for each text of the column (int64 `(batch,)`; see `LOSS_NEEDS`).
`PROGRESS` has the share of the stage's steps that is done, a float32 scalar.
"""


class Trainer:
    """Takes the optimiser steps of one stage."""

    def step(self, columns: Columns) -> StepResult:
        """Take one step: forward pass, loss, gradient, update.

        `columns` is the whole batch even if there are several devices: the loss sees all vectors, as on one
        device. A step whose loss or gradient is NaN or infinite changes neither weights nor states, but counts
        as a step of the schedule.
        """
        raise NotImplementedError

    def gradients(
        self, columns: Columns
    ) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return the loss of a batch and, for each parameter, its gradient before clipping. No step is taken.

        Parameters are called `ENCODER.NAME` or `loss.NAME`, where NAME is that of the torch parameter. Dropout
        draws random numbers as in `step`; nothing else changes. The method is for comparing engines, and for
        diagnosis.
        """
        raise NotImplementedError

    def swap_average(self) -> None:
        """Swap the trained weights of the encoders with their moving average. A second call swaps them back.

        The average starts with the initial weights. After each step that changes weights, it becomes
        `ema * average + (1 - ema) * weights`. Called only if `Training.ema` is set.
        """
        raise NotImplementedError

    def save(self, directory: Path) -> None:
        """Write everything on which later steps depend into the empty `directory`.

        This includes trained weights, the optimiser, the loss with its state, moving averages, the number of
        steps and the state of every random generator.
        """
        raise NotImplementedError

    def load(self, directory: Path) -> None:
        """Restore what `save` wrote.

        Raises:
            ModelError: if it was written by a trainer of other parameters or settings.
        """
        raise NotImplementedError


class Engine:
    """Places encoders on one or several devices. The placed encoders encode batches.

    An engine that also trains is a `TrainingEngine`. The runtime of an engine that does not train is
    `untrainable`. Core uses one engine in one process and passes it whole batches. An engine with several
    devices or processes distributes the rows of a batch and gathers the vectors itself. `docs/engines.md`
    describes the contract, and `sentbed_testing` compares an engine with that of `cpu`.
    """

    token_budget: int = 8192
    """Number of tokens per batch with which this device encodes fastest."""
    device: Any = "cpu"
    """torch device for evaluators that train a classifier."""

    def report_to(self, say: Callable[[str], None]) -> None:
        """Set the function to call with messages to the user, such as that memory forced it to halve a batch."""

    def describe(self) -> Mapping[str, Any]:
        """Return the device, the `precision` (which is recorded with every score) and the number of threads."""
        raise NotImplementedError

    def counters(self) -> Mapping[str, float]:
        """Return the engine's counters, for the manifest.

        These are the peak `device_memory_gib`, and others that the engine chooses, such as `compile_seconds`.
        By default, there are none.
        """
        return {}

    def seed(self, seed: int) -> None:
        """Seed all random generators that initialisation and dropout use, including torch's on the host."""
        raise NotImplementedError

    def assemble(
        self,
        backbone: BuiltBackbone,
        pooler: Pooler,
        head: Head,
        saved: Path | None = None,
    ) -> PlacedEncoder:
        """Build the pooler and the head, and move them and the backbone to the device.

        With `saved`, their weights are restored from this directory, which `PlacedEncoder.save` wrote.
        """
        raise NotImplementedError


class TrainingEngine(Engine):
    """An engine that can also train encoders."""

    def trainer(
        self, encoders: Mapping[str, PlacedEncoder], training: Training
    ) -> Trainer:
        """Return a trainer of encoders that this engine has assembled; `training.towers` has their names.

        The vectors of all encoders have the same dimension. The trainer builds the loss before it draws any other
        random numbers, so that the weights of the loss are the same on every engine for the same seed.

        Raises:
            RunError: if no parameter of the encoders can be trained.
        """
        raise NotImplementedError


RUNTIME_OFFERS: Mapping[str, str] = MappingProxyType(
    {
        "vector": "pooler with the output `vector`",
        "tokens": "pooler with the output `tokens`",
        "sparse": "pooler with the output `sparse`",
        "auxiliary-prompt": "auxiliary prompt",
        "marked-tokens": "prompt that hides tokens or has a placeholder",
    }
)
"""Words for what an encoder may need of an engine (`Runtime.offers`), and how messages describe it.

`vector`, `tokens` and `sparse` are outputs of poolers. With `auxiliary-prompt`, encoders accept
`TokenBatch.auxiliary`; with `marked-tokens`, the keyword `hidden` of a batch, and placeholders in prompts.
"""


class Runtime(Component):
    """Device and precision on which a recipe runs.

    Before `build`, a run calls `launch` and `serve`, which are for runtimes with several processes.
    """

    __slots__ = ()

    @property
    def processes(self) -> int:
        """Number of processes of a run."""
        return 1

    @property
    def offers(self) -> frozenset[str]:
        """What encoders may need of the engine: words of `RUNTIME_OFFERS`."""
        return frozenset({"vector", "sparse", "marked-tokens"})

    @property
    def untrainable(self) -> str | None:
        """Why encoders with this runtime cannot be trained: a sentence with a remedy; None if they can.

        `sentbed check` refuses a stage that would train them.
        """
        return None

    @abstractmethod
    def build(self) -> Engine:
        """Claim the device and return its engine.

        Raises:
            RuntimeUnavailableError: if the device cannot be used.
        """

    def unavailable(self) -> str | None:
        """Return why the runtime cannot be used on this machine, with a remedy; None if it probably can be used.

        Called before a run, and by `sentbed check`. The method must neither import heavy libraries nor claim the
        device.
        """
        return None

    def with_threads(self, threads: int) -> Runtime:
        """Return this runtime limited to `threads` threads, for one of several workers on a machine.

        Return the runtime unchanged if its threads cannot be limited, or the recipe sets their number.
        """
        return self

    def launch(self, command: Sequence[str]) -> int | None:
        """Start all processes with `command`, wait for them, and return the exit code.

        Return None if there is nothing to start, because the runtime has one process, or this process is one of
        those that `launch` has started.
        """
        return None

    def serve(self) -> bool:
        """Serve the engine of the first process until that process ends, then return True.

        In the first process, and if there is only one, return False at once: this process runs the recipe and
        writes the files.
        """
        return False
