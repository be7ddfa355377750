"""Base classes of components, which plugins offer, and of the objects they build.

A component is a frozen attrs class that inherits from its kind's base class. Its fields are its recipe
parameters, its `traits` describe its other capabilities. Methods that are not abstract have a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import attrs

from sentbed._component_faults import returned
from sentbed.protocols.tokens import BlockStates, Module, Tensor, Tokenizer
from sentbed.protocols.traits import (
    BackboneTraits,
    ComponentTraits,
    DataTraits,
    InterventionTraits,
    LossTraits,
    PoolerTraits,
    SimilarityTraits,
)


class Component(ABC):
    """Base class of all components; its fields are its recipe parameters."""

    __slots__ = ()

    name: ClassVar[str]
    """Name used in recipes."""

    @property
    def traits(self) -> ComponentTraits:
        """Capabilities besides the fields."""
        return ComponentTraits()

    def check(self) -> Iterator[str]:
        """Yield problems that can be found without heavy imports, for `sentbed check`.

        Examples are missing files and conflicting parameters; each problem is a sentence that ends with a
        remedy.
        """
        return iter(())

    def remarks(self) -> Iterator[str]:
        """Yield what to know before a run, one sentence each, such as what will be downloaded.

        Only `sentbed check` calls it, once for equal components. It may ask a server for a few seconds; if
        none answers, it yields nothing. Raise a `SentbedError` for what a server says cannot work.
        """
        return iter(())


Part = TypeVar("Part", bound=Component)


def _fields(component: Component) -> tuple[attrs.Attribute[Any], ...]:
    cls: Any = type(component)
    fields: tuple[attrs.Attribute[Any], ...] = ()
    if attrs.has(cls):
        fields = attrs.fields(cls)
    return fields


def inner_parts(component: Component, base: Callable[..., Part]) -> tuple[Part, ...]:
    """Return the components of the class `base` that a component's fields hold, alone or in arrays.

    Each is a component of its own: core has made it and called its `check`.
    """
    cls: Any = base
    parts: list[Part] = []
    for field in _fields(component):
        value = getattr(component, field.name)
        values = value if isinstance(value, tuple) else (value,)
        parts += (part for part in values if isinstance(part, cls))
    return tuple(parts)


OF_MACHINE: Mapping[str, bool] = {"machine": True}
"""Metadata of a field that says where a run works or with whom, such as an address or a number of machines.

The caller sets such a field. When an encoder is loaded or a run is resumed, the value in the directory, which
somebody else may have written, is ignored: the field's default is used, so it must have one. Text fields of
runtimes, trackers and executors are treated like this also without the metadata.
"""

OF_RUN: Mapping[str, bool] = {"machine": False}
"""Metadata of a text field of a runtime, a tracker or an executor that is safe to read from a directory that
somebody else wrote, because it is neither an address nor a path."""


@attrs.frozen
class BuildContext:
    """Arguments for building a backbone."""

    texts: Callable[[], Iterable[str]]
    """Returns this encoder's texts in the recipe's stages, for training a tokenizer."""
    saved: Path | None = None
    """Directory written by `BuiltBackbone.save`, from which to load weights and tokenizer, or None."""
    needs: frozenset[str] = frozenset()
    """Needs of the pooler (see `PoolerTraits`): the fields of `TokenStates` to compute."""
    sums: Mapping[str, str] = attrs.field(factory=dict)
    """Path in `saved` -> verified SHA-256 of the file; empty if it was saved without checksums."""
    readings: tuple[tuple[int, ...], ...] = ()
    """Sets of layers, other than the backbone's, from which prompts have token states taken; see
    `Tokenizer.encode_marked`."""
    template: tuple[str, str] | None = None
    """Text before and after the sentence in the encoder's only prompt, with `{mask}` for the mask token; None
    without a prompt or with several."""
    shapes_only: bool = False
    """Whether only shapes are needed, for `sentbed plan`. The backbone is then built on torch's device `meta`,
    without reading or downloading weights. Its tokenizer may be None if it is not on this machine. A quantized
    parameter has its size in bytes in the attribute `held_bytes`."""


class LanguageModelHead:
    """Language-modelling head of a built backbone, required by the trait `predicts`."""

    vocabulary: Sequence[str] = ()
    """Text of each token, in the order of ids."""

    def logits(self, states: Any) -> Any:
        """Return float32 logits `(n, tokens)` for the last layer's states `(n, width)`, both in NumPy."""
        raise NotImplementedError

    def output_embedding(self) -> Any:
        """Return the output embedding, the head's last matrix, float32 `(tokens, width)`, in NumPy."""
        raise NotImplementedError

    def prediction_head(self) -> Module:
        """Return `module(states) -> logits` for training.

        Its attributes are `mask_id`, `special_ids`, `tokens` (size of the vocabulary) and `shift`: 1 if a
        state predicts the next token, 0 if it predicts its own.
        """
        raise NotImplementedError


class BuiltBackbone(LanguageModelHead):
    """Tokenizer and transformer, on the host.

    A subclass must set the attributes that have no default, and implement `inference` and `save`.
    """

    tokenizer: Tokenizer
    """Tokenizer of the transformer."""
    module: Module
    """`module(input_ids, attention_mask | None, **keywords) -> TokenStates`; the keywords are
    `TokenBatch.keywords`: the optional fields of the batch that the tokenizer has filled, often none."""
    width: int
    """Dimension of a token state."""
    max_length: int
    """Largest input length in tokens that the position embeddings allow."""
    origin: Mapping[str, Any]
    """Source of the weights, with their hash, for the manifest."""
    shares_prefix: bool = False
    """Whether `inference(...)(input_ids, attention_mask, prefix)` accepts ids `(shared,)` that precede every
    row; `TokenStates` and its mask then include them."""
    dispatched: bool = False
    """Whether the weights are already on their devices."""
    weights_directory: Path | None = None
    """Directory of safetensors files with the pretrained weights, from which a pooler may load its own; None
    if the weights are random, or come from a saved encoder."""
    training_pass_cost: int = 128
    """Fixed cost of a forward and backward pass, in padded tokens. Texts of different lengths share a pass if
    that adds less padding than this."""

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Entries for every score's protocol, such as the layers used."""
        return {}

    def inference(self, module: Module, dtype: Any, traceable: bool = False) -> Module:
        """Return a copy of `module` for encoding: no gradient, eval mode, weights in `dtype`.

        With `traceable`, it uses only operations that a compiler supports. If several threads may call it at
        a time, it has `reentrant = True`.
        """
        raise NotImplementedError

    def save(self, directory: Path) -> None:
        """Write weights (safetensors), configuration and tokenizer into `directory`, creating it."""
        raise NotImplementedError

    def merged(self) -> tuple[Backbone, BuiltBackbone] | None:
        """Return component and backbone with adapters merged, for `sentbed export`; None without adapters."""
        return None


class Backbone(Component):
    """Tokenizer + transformer: text -> token states."""

    __slots__ = ()

    @property
    def traits(self) -> BackboneTraits:
        """What it offers to poolers, and other capabilities; by default those of its inner backbone."""
        return BackboneTraits.of(*inner_parts(self, Backbone))

    @abstractmethod
    def build(self, context: BuildContext) -> BuiltBackbone:
        """Load or initialise the backbone. Heavy imports happen only here."""

    def most_tokens(self) -> int | None:
        """Return the largest input length in tokens, or None if unknown; by default the inner backbone's.

        Like `check`, it does without heavy imports. `BuiltBackbone.max_length` is the exact number.
        """
        for inner in inner_parts(self, Backbone):
            return inner.most_tokens()
        return None

    def reading(self, layers: tuple[int, ...]) -> Backbone | None:
        """Return this backbone with other layers as output, for a prompt that sets them; None if it cannot."""
        return None

    def misfits(self, needs: frozenset[str]) -> Iterator[str]:
        """Yield a problem for each conflict between its fields and a pooler's needs; see `inner_parts`."""
        for inner in inner_parts(self, Backbone):
            yield from inner.misfits(needs)


class Intervention(Component):
    """Changes states within a backbone. It trains no weights and keeps nothing between calls."""

    __slots__ = ()

    @property
    def traits(self) -> InterventionTraits:
        """Requirements on the prompt, and other capabilities."""
        return InterventionTraits()

    @property
    @abstractmethod
    def places(self) -> Collection[tuple[str, int]]:
        """Where it acts: pairs of a point and the number of a block, from 0.

        Points are `block-input`, the input of a block, and `attention-heads`, the concatenated outputs of its
        attention heads before the output projection. A backbone lists its points in `traits.offers`.
        """

    @abstractmethod
    def build(self) -> Callable[[BlockStates], Tensor]:
        """Return a function that returns the new states, of the same shape, without changing its input."""


class Pooler(Component):
    """Token states -> one vector per sentence, or a vector of each token."""

    __slots__ = ()

    @property
    def traits(self) -> PoolerTraits:
        """Requirements on backbone and prompt, and other capabilities; by default those of its inner poolers.

        A pooler that has inner poolers and traits of its own returns `PoolerTraits.of(self.inner, ...)`.
        """
        return PoolerTraits.of(*inner_parts(self, Pooler))

    @abstractmethod
    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, output_width(width))`.

        In training mode the vectors have the dimension `trained_width(width)`. If the traits have
        `output = "tokens"`, the module returns `TokenVectors`: `(batch, length, output_width(width))`, and a
        mask of the tokens that count. If they have `"sparse"`, most numbers of a vector are 0.
        """

    def output_width(self, width: int) -> int:
        """Return the dimension of a sentence vector, given that of a token state.

        By default that of its first inner pooler, or `width`.
        """
        for inner in inner_parts(self, Pooler):
            return inner.output_width(width)
        return width

    def trained_width(self, width: int) -> int:
        """Return the dimension of a sentence vector in training mode, given that of a token state.

        It differs from `output_width` if a layer that changes the width is used in training only.
        """
        if type(self).output_width is not Pooler.output_width:
            return self.output_width(width)
        for inner in inner_parts(self, Pooler):
            return inner.trained_width(width)
        return width

    def load_pretrained(self, module: Module, directory: Path) -> None:
        """Load pretrained weights into `module`, the result of `build`, from safetensors in `directory`.

        Called once, before training, if the traits have `pretrained`. Raises `ModelError` if the files lack
        the weights. By default, an inner pooler loads them into the submodule named like its field.
        """
        for field in _fields(self):
            inner = getattr(self, field.name)
            if isinstance(inner, Pooler) and inner.traits.pretrained:
                inner.load_pretrained(module.get_submodule(field.name), directory)


class Similarity(Component):
    """Similarity of two encoded texts; higher means more alike.

    An encoder names one in its recipe. Evaluators and losses then use it instead of the cosine. Its methods
    are differentiable functions of tensors and keep nothing between calls.
    """

    __slots__ = ()

    @property
    def traits(self) -> SimilarityTraits:
        """Outputs of poolers that it compares, and other capabilities."""
        return SimilarityTraits()

    def normalize(self, vectors: Any) -> Any:
        """Prepare vectors for comparison, for example by L2 normalisation; called once for each text.

        Argument and result are a tensor `(n, width)`, or `TokenVectors` if it compares tokens.
        """
        return vectors

    @abstractmethod
    def similarity(self, first: Any, second: Any) -> Tensor:
        """Return the similarities of all pairs of a row of `first` and a row of `second`, `(n, m)`.

        Both are results of `normalize`. Callers pass blocks, so that the result fits into memory.
        """

    def pairwise(self, first: Any, second: Any) -> Tensor:
        """Return the similarity of row i of `first` and row i of `second`, `(n,)`.

        The default is the diagonal of `similarity`, which takes n times the work; callers pass few rows.
        """
        return self.similarity(first, second).diagonal()

    def bytes_per_text(self, width: int, tokens: float = 1) -> float:
        """Return the bytes that an index needs per text: by default those of `tokens` fp32 vectors."""
        return 4 * width * tokens

    def operations(self, width: int, first: float = 1, second: float = 1) -> float:
        """Return the number of operations (multiplications and additions) to compare two texts.

        `first` and `second` are their numbers of vectors. The default counts the dot products of all pairs.
        """
        return 2 * width * first * second


@attrs.frozen(eq=False)
class LossOutput:
    """Result of a loss."""

    loss: Tensor
    """Scalar loss, the mean over the batch."""
    metrics: Mapping[str, Tensor] = attrs.field(factory=dict)
    """Detached scalars for the log, by name."""
    state: Mapping[str, Tensor] | None = None
    """State for the next step, detached; only for stateful losses."""


LABEL = "label"
"""Column of a data source that holds class names instead of texts; see `LossTraits.classes`."""

PROGRESS = "stage.progress"
"""Input of a loss with the share of the stage's steps that are done; see `LossTraits.scheduled`."""


@attrs.frozen
class ParameterSettings:
    """Optimiser settings for a parameter of a loss, where they differ from the stage's optimiser."""

    lr: float | None = None
    """Peak learning rate, scaled by the stage's schedule; None for the optimiser's."""
    weight_decay: float | None = None
    """Decoupled weight decay; None for the optimiser's."""


class Loss(Component):
    """Sentence vectors -> a scalar to minimise."""

    __slots__ = ()

    @property
    @abstractmethod
    def traits(self) -> LossTraits:
        """Required columns, and other capabilities."""

    @abstractmethod
    def build(self, width: int) -> Module:
        """Return `module(inputs: Mapping[str, Tensor]) -> LossOutput`.

        `inputs` maps columns to fp32 vectors `(batch, width)`, columns of numbers (`LossTraits.numbers`) to
        fp32 `(batch,)`, and `label` to class indices `(batch,)`; a loss that is `scheduled` also gets
        `stage.progress`, an fp32 scalar. The module is a pure function of its arguments and parameters: nothing
        is kept between calls, gradients are stopped with `.detach()`.

        The module or a submodule may have `parameter_settings`, a dict from the name of one of its parameters
        to `ParameterSettings`.

        If the traits have `stateful`, the module has `initial_state() -> dict[str, Tensor]` and is called as
        `module(inputs, state)`: the `state` of its output is passed to the next step and saved with every
        checkpoint.

        If the encoder's pooler has `output = "tokens"`, `inputs` maps columns to `TokenVectors`.

        If the traits have `predicts`, the module has `corrupt(ids, special, head)`: it takes int64 ids and a
        mask of special tokens, both `(total,)`, and returns the ids that the encoder reads and a mask of the
        tokens to predict. `inputs` then maps columns to fp32 logits `(predicted, tokens)`, and `COLUMN.id` to
        the ids to predict.
        """

    def compared_by(self, similarity: Similarity) -> Loss:
        """Return the loss with the similarity of the trained encoder.

        By default the loss itself, with the similarity passed on to its inner losses.
        """
        if not inner_parts(self, Loss):
            return self
        loss: Any = self
        changes: dict[str, Any] = {}
        for field in _fields(self):
            if field.init:
                value = getattr(self, field.name)
                changes[field.alias or field.name] = _compared(value, similarity)
        changed: Loss = attrs.evolve(loss, **changes)
        return changed

    def misfits(self, batch_size: int, fixed: frozenset[str]) -> Iterator[str]:
        """Yield a problem for each conflict between its fields and batches of `batch_size` rows.

        The columns `fixed` are encoded by frozen towers. By default the problems of its inner losses.
        """
        for inner in inner_parts(self, Loss):
            yield from inner.misfits(batch_size, fixed)

    def without_effect(self, rows: int) -> Iterator[str]:
        """Yield a warning for each field that has no effect in a stage with `rows` rows over all epochs.

        By default the warnings of its inner losses.
        """
        for inner in inner_parts(self, Loss):
            yield from inner.without_effect(rows)

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int | None:
        """Return the maximum number of negatives per anchor in a full batch of data with these columns.

        Return 0 if the loss does not compare anchors, None if unknown. By default the maximum over its inner
        losses, None if it is unknown for one.
        """
        counts: list[int] = []
        for inner in inner_parts(self, Loss):
            count = inner.negatives(batch_size, columns)
            if count is None:
                return None
            counts.append(count)
        return max(counts, default=None)


def _compared(value: Any, similarity: Similarity) -> Any:
    """Return the value of a loss's field, with the similarity set in every loss in it."""
    if isinstance(value, Loss):
        compared = value.compared_by(similarity)
        return returned(compared, Loss, value, "compared_by")
    if isinstance(value, tuple):
        return tuple(_compared(each, similarity) for each in value)
    return value


@attrs.frozen
class Mixture:
    """How to sample a data set with several parts; its rows are those of part 0, then of part 1, ..."""

    sizes: tuple[int, ...]
    """Number of rows of each part."""
    takes: tuple[int, ...]
    """Number of rows per epoch from each part; a smaller part is repeated in another order. Repetitions
    belong to the same epoch: a source that varies its texts returns the same text for a repeated row."""
    in_turn: bool = False
    """Whether parts take strict turns; otherwise their order is shuffled."""
    whole_batches: bool = False
    """Whether all rows of a batch come from one part."""


class Dataset(ABC):
    """Rows of named columns, addressed by index: texts, or numbers where `DataTraits.numbers` says so."""

    __slots__ = ()

    mixture: Mixture | None = None
    """How to sample it, if it has several parts."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the columns: `anchor`, `positive`, `negative`, `label`, ..."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of everything that determines the results of `rows`, including the content, for the manifest."""

    @property
    def varies(self) -> bool:
        """Whether texts change from epoch to epoch."""
        return False

    @property
    def left_out(self) -> Mapping[str, int]:
        """Reason -> number of rows that were left out, for the manifest."""
        return {}

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def rows(
        self, indices: Sequence[int], epoch: int = 0
    ) -> Mapping[str, Sequence[Any]]:
        """Return the texts of these rows, or the numbers, by column.

        `epoch` counts passes over the data from 0, for a source that varies its texts; the same arguments
        always give the same texts.
        """

    @abstractmethod
    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Yield every text of these columns, by default of all, for training a tokenizer."""


class DataSource(Component):
    """Source of training texts."""

    __slots__ = ()

    @property
    def traits(self) -> DataTraits:
        """Whether it uses the network, and other capabilities; by default those of its inner sources."""
        return DataTraits.of(*inner_parts(self, DataSource))

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns of the data set that `open()` returns; must not need to read the data."""

    @abstractmethod
    def open(self) -> Dataset:
        """Return the data set; it may read rows later. Raises `DataError` with file and line."""

    def files(self) -> Iterable[Path]:
        """Return files and directories that it reads but no field names; a study hashes them."""
        return ()


AnyEncoder: TypeAlias = Any
"""A `sentbed.Encoder`, which is not defined in the protocols."""


class Exporter(Component):
    """Writes an encoder in another library's format. Its fields are options of `sentbed export --set`."""

    __slots__ = ()

    @abstractmethod
    def write(self, encoder: AnyEncoder, directory: Path) -> Iterable[str] | None:
        """Write into the empty `directory`, which is moved to its final path afterwards.

        May return remarks for users, one sentence each, such as for which texts vectors will differ.

        The encoder is on the runtime `cpu`, in fp32; `encoder.placed.module` is its torch module. If the
        other library cannot produce the same vectors, raise `ModelError` with the part, the reason and an
        alternative.
        """


class Importer(Component):
    """Reads an encoder written by another library. Its fields are options of `sentbed import --set`.

    `recognises` is called on importers with default options; one with a required field is used only by name
    (`--from`).
    """

    __slots__ = ()

    @abstractmethod
    def recognises(self, source: Path) -> bool:
        """Whether `source` appears to be in the format that this class reads; loads nothing heavy."""

    @abstractmethod
    def read(self, source: Path) -> AnyEncoder:
        """Return the encoder with the weights of `source`, on the runtime `cpu`.

        Raises `ModelError` with the unsupported part of `source` and a remedy.
        """

    def notes(self, source: Path) -> Iterable[str]:
        """Return one sentence for each part of `source` that the encoder lacks; by default none."""
        return ()


class Executor(Component):
    """Runs the tasks of a long job. Its fields are options of the command line, such as `workers`."""

    __slots__ = ()

    @abstractmethod
    def build(self, say: Callable[[str], Any]) -> Any:
        """Return a `sentbed_common.TaskPool`; `say` is called with messages about workers that died.

        Raises `RuntimeUnavailableError` if a package is missing or no cluster responds.
        """


class CellSampler(Component):
    """Chooses the next cells of a study to run, from the scores of those that have been run."""

    __slots__ = ()

    learns: ClassVar[bool] = True
    """Whether its choice depends on the scores."""

    @abstractmethod
    def choose(
        self,
        cells: Sequence[Mapping[str, Any]],
        scores: Mapping[int, float | None],
        count: int,
        seed: int,
    ) -> Sequence[int]:
        """Return the indices of `count` more cells; equal arguments always give the same.

        A cell maps each axis to its label or, if every label of the axis has a number, to the label's number.
        `scores` has the cells chosen before, in order, with None for one without a score; higher is better.
        """


class Optimizer(Component):
    """Gradients -> new weights."""

    __slots__ = ()

    @property
    @abstractmethod
    def lr(self) -> float:
        """Learning rate; a field."""

    @abstractmethod
    def build(self, parameters: Sequence[tuple[str, Tensor]]) -> Any:
        """Return a `torch.optim.Optimizer` over these named parameters."""

    def build_optax(self, shapes: Mapping[str, tuple[int, ...]]) -> Any:
        """Return the equivalent `optax.GradientTransformation` for engines on JAX, or None.

        It is for parameters of these names and shapes. The engine multiplies its updates by the negative
        learning rate of the step.
        """
        return None

    def state_bytes(self, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        """Return the size in bytes of its state for fp32 parameters of these shapes, or None if unknown."""
        return None


class Schedule(Component):
    """Step -> multiplier of the learning rate."""

    __slots__ = ()

    @abstractmethod
    def factor(self, step: int, total_steps: int) -> float:
        """Return the multiplier, in [0, 1], for step `step` (from 0) of `total_steps`."""


class Tracker(Component):
    """Follows a run and sends its results somewhere else."""

    __slots__ = ()

    @abstractmethod
    def build(self) -> object:
        """Return an object that implements lifecycle hooks with `@sentbed.hookimpl`."""
