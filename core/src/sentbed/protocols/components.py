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
    """Return the components below `base` in a component's fields, also those in arrays.

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

Its value comes from the caller and never from a directory that is loaded or resumed, which may be a
stranger's; there the default is taken, so it needs one. Fields of runtimes, trackers and executors that hold
any text are such fields without it.
"""

OF_RUN: Mapping[str, bool] = {"machine": False}
"""Metadata of a text of a runtime, a tracker or an executor that is neither an address nor a path: it is read
from a directory, too."""


@attrs.frozen
class BuildContext:
    """Arguments for building a backbone."""

    texts: Callable[[], Iterable[str]]
    """Returns this encoder's texts from the recipe's stages, to train a tokenizer; read only if called."""
    saved: Path | None = None
    """Directory written by `BuiltBackbone.save`, from which weights and tokenizer are loaded if given."""
    needs: frozenset[str] = frozenset()
    """Needs of the pooler (see `PoolerTraits`): `TokenStates` must meet them, nothing else is computed."""
    sums: Mapping[str, str] = attrs.field(factory=dict)
    """SHA-256 of the files in `saved`, by their paths there, verified; empty if they were saved without."""
    readings: tuple[tuple[int, ...], ...] = ()
    """Layers that prompts choose instead of the backbone's own; see `Tokenizer.encode_marked`."""
    template: tuple[str, str] | None = None
    """Text before and after the sentence in the encoder's only prompt, with `{mask}` for the mask token; None
    without a prompt or with several."""
    shapes_only: bool = False
    """Whether only shapes are wanted, for `sentbed plan`. The backbone is built on torch's device `meta`: no
    weights need to be read or fetched. Its tokenizer may be None if it is not on this machine. A parameter that
    is held in fewer bytes than its `dtype` says has their number in its attribute `held_bytes`."""


class LanguageModelHead:
    """What a built backbone has if its traits say `predicts`."""

    vocabulary: Sequence[str] = ()
    """Text of each token by its id, if the traits say `predicts`."""

    def logits(self, states: Any) -> Any:
        """Return float32 logits `(n, tokens)` for the last layer's states `(n, width)`, both in NumPy."""
        raise NotImplementedError

    def output_embedding(self) -> Any:
        """Return the last matrix of the head of `logits`, float32 `(tokens, width)`, in NumPy."""
        raise NotImplementedError

    def prediction_head(self) -> Module:
        """Return `module(states) -> logits` to train with; it has `mask_id`, `special_ids`, `tokens` (their
        number) and `shift`: 1 if a state predicts the next token, 0 if its own."""
        raise NotImplementedError


class BuiltBackbone(LanguageModelHead):
    """Tokenizer and transformer, on the host.

    What has no default, and `inference` and `save`, is the least. `LanguageModelHead` is for those that predict.
    """

    tokenizer: Tokenizer
    """Tokenizer of the transformer."""
    module: Module
    """`module(input_ids, attention_mask | None, **keywords) -> TokenStates`; the keywords are those of
    `TokenBatch.keywords`, of which there are none unless its tokenizer gives the fields."""
    width: int
    """Dimension of a token state."""
    max_length: int
    """Maximum input length in tokens that the positions allow."""
    origin: Mapping[str, Any]
    """Source of the weights, with their hash, for the manifest."""
    shares_prefix: bool = False
    """Whether `inference(...)(input_ids, attention_mask, prefix)` takes ids `(shared,)` to put before every
    row; `TokenStates` and its mask then include them."""
    dispatched: bool = False
    """Whether the weights are already on their devices."""
    weights_directory: Path | None = None
    """Directory of the safetensors files that hold the pretrained weights, from which a pooler may take its
    own; None if the weights are random, or those of a saved encoder."""
    training_pass_cost: int = 128
    """What a pass in training costs besides its tokens, in padded tokens: texts of unlike length share a pass
    where that is less padding."""

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
        """What it offers to poolers, and other capabilities; by default those of a backbone in its fields."""
        return BackboneTraits.of(*inner_parts(self, Backbone))

    @abstractmethod
    def build(self, context: BuildContext) -> BuiltBackbone:
        """Load or initialise the backbone. Heavy imports happen only here."""

    def most_tokens(self) -> int | None:
        """Return how many tokens of a text its weights have positions for, at most; None if it is not known.

        It is asked without heavy imports, as `check` is; `BuiltBackbone.max_length` is the exact number. By
        default that of a backbone in its fields.
        """
        for inner in inner_parts(self, Backbone):
            return inner.most_tokens()
        return None

    def reading(self, layers: tuple[int, ...]) -> Backbone | None:
        """Return this backbone reading other layers, as one prompt of several may; None if it cannot."""
        return None

    def misfits(self, needs: frozenset[str]) -> Iterator[str]:
        """Yield a problem for each conflict between its fields and a pooler's needs.

        By default those of a backbone in its fields.
        """
        for inner in inner_parts(self, Backbone):
            yield from inner.misfits(needs)


class Intervention(Component):
    """States within a backbone -> other states. No weights are trained, and nothing is kept between calls."""

    __slots__ = ()

    @property
    def traits(self) -> InterventionTraits:
        """What it needs of the prompt, and other capabilities."""
        return InterventionTraits()

    @property
    @abstractmethod
    def places(self) -> Collection[tuple[str, int]]:
        """Where it acts: point and block, numbered from 0.

        The points are `block-input`, what a block reads, and `attention-heads`, the joined outputs of its
        attention heads before their projection. A backbone names those that it has in `traits.offers`.
        """

    @abstractmethod
    def build(self) -> Callable[[BlockStates], Tensor]:
        """Return the function from states to others of the same shape; it changes none in place."""


class Pooler(Component):
    """Token states -> one vector per sentence, or a vector of each token."""

    __slots__ = ()

    @property
    def traits(self) -> PoolerTraits:
        """Needs of the backbone and the prompt, and other capabilities; by default those of inner poolers.

        One that contains poolers and has traits of its own adds them: `PoolerTraits.of(self.inner, ...)`.
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

        By default that of the first pooler in its fields, or `width`.
        """
        for inner in inner_parts(self, Pooler):
            return inner.output_width(width)
        return width

    def trained_width(self, width: int) -> int:
        """Return the dimension of a vector in training, given that of a token state.

        It differs from `output_width` where a part that changes the width is in training only.
        """
        if type(self).output_width is not Pooler.output_width:
            return self.output_width(width)
        for inner in inner_parts(self, Pooler):
            return inner.trained_width(width)
        return width

    def load_pretrained(self, module: Module, directory: Path) -> None:
        """Give `module`, which `build` has made, weights of the model files in `directory`.

        Called once, before training, if the traits have `pretrained`. The files are safetensors, one or
        several. Raises `ModelError` if they lack the weights. By default, the pooler in a field gives them to
        the module of the same name within `module`.
        """
        for field in _fields(self):
            inner = getattr(self, field.name)
            if isinstance(inner, Pooler) and inner.traits.pretrained:
                inner.load_pretrained(module.get_submodule(field.name), directory)


class Similarity(Component):
    """Two texts, as an encoder gives them -> how alike they are: the higher, the more alike.

    An encoder names it in its recipe. Evaluators compare its texts by it, and losses train for it, in the
    place of the cosine. Its methods are functions of tensors, with gradient; nothing is kept between calls.
    """

    __slots__ = ()

    @property
    def traits(self) -> SimilarityTraits:
        """Outputs of poolers that it compares, and other capabilities."""
        return SimilarityTraits()

    def normalize(self, vectors: Tensor) -> Tensor:
        """Return what is compared of some texts; called once a text, such as to make vectors of length 1.

        Argument and result are `(n, width)`, or `TokenVectors` if it compares tokens.
        """
        return vectors

    @abstractmethod
    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the similarity of each of `first` with each of `second`, `(n, m)`.

        Both are as `normalize` returns them. Callers hand over blocks, so that the result fits into memory.
        """

    def pairwise(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the similarity of each of `first` with that in the same place of `second`, `(n,)`.

        By default it is the diagonal of `similarity`, which takes n times the work; callers hand over few
        at a time.
        """
        return self.similarity(first, second).diagonal()

    def bytes_per_text(self, width: int, tokens: float = 1) -> float:
        """Return the bytes of a text that is kept to be compared: by default `tokens` vectors of fp32."""
        return 4 * width * tokens

    def operations(self, width: int, first: float = 1, second: float = 1) -> float:
        """Return how many multiplications and additions a pair takes: by default those of dot products.

        `first` and `second` are the numbers of vectors of the two texts.
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
"""Input of a loss that says how much of its stage is over; see `LossTraits.scheduled`."""


@attrs.frozen
class ParameterSettings:
    """How a loss's own parameter is optimised where it is not as the stage's optimiser does by itself."""

    lr: float | None = None
    """Peak learning rate, which follows the stage's schedule; None for the optimiser's."""
    weight_decay: float | None = None
    """Decoupled weight decay; None for what the optimiser does with such a parameter."""


class Loss(Component):
    """Sentence vectors -> a scalar to minimise."""

    __slots__ = ()

    @property
    @abstractmethod
    def traits(self) -> LossTraits:
        """Columns that it needs, and other capabilities."""

    @abstractmethod
    def build(self, width: int) -> Module:
        """Return `module(inputs: Mapping[str, Tensor]) -> LossOutput`.

        `inputs` maps columns to fp32 vectors `(batch, width)`, columns of numbers (`LossTraits.numbers`) to
        fp32 `(batch,)`, and `label` to class indices `(batch,)`; a loss that is `scheduled` also gets
        `stage.progress`, an fp32 scalar. The module is a pure function of its
        arguments and parameters: nothing is kept between calls, gradients are stopped with `.detach()`.

        The module, or one within it, may have `parameter_settings`: the name of a parameter of its own -> its
        `ParameterSettings`.

        If the traits have `stateful`, the module has `initial_state() -> dict[str, Tensor]` and is called as
        `module(inputs, state)`: the `state` of its output is passed to the next step and saved with every
        checkpoint.

        Of an encoder whose pooler has `output = "tokens"`, a column is a `TokenVectors`.

        If they have `predicts`, it has `corrupt(ids, special, head)`: int64 ids and a mask of special tokens,
        both `(total,)` -> ids that the encoder reads, and a mask of those to predict. `inputs` then has their
        fp32 logits `(predicted, tokens)` by column, and their ids as `COLUMN.id`.
        """

    def compared_by(self, similarity: Similarity) -> Loss:
        """Return the loss with the similarity that the trained encoder names.

        By default the loss itself, but for the losses in its fields.
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

        The columns `fixed` are encoded by towers that the stage does not train. By default those of the
        losses in its fields, as of the next two methods.
        """
        for inner in inner_parts(self, Loss):
            yield from inner.misfits(batch_size, fixed)

    def without_effect(self, rows: int) -> Iterator[str]:
        """Yield a warning for each field without effect in a stage of `rows` rows, all epochs together."""
        for inner in inner_parts(self, Loss):
            yield from inner.without_effect(rows)

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int | None:
        """Return the maximum number of negatives per anchor in a full batch of data with these columns.

        Return 0 if the loss does not compare anchors, None if unknown. By default the most that a loss in
        its fields has, None if one does not know.
        """
        counts: list[int] = []
        for inner in inner_parts(self, Loss):
            count = inner.negatives(batch_size, columns)
            if count is None:
                return None
            counts.append(count)
        return max(counts, default=None)


def _compared(value: Any, similarity: Similarity) -> Any:
    """Return the value of a loss's field, with the similarity in the losses that it holds."""
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
        """Hash of everything that determines what `rows` returns, including the content, for the manifest."""

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
        """Whether it fetches from the network, and other capabilities; by default those of inner sources."""
        return DataTraits.of(*inner_parts(self, DataSource))

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns of the data set that `open()` returns, known without reading the data."""

    @abstractmethod
    def open(self) -> Dataset:
        """Read the data, or prepare to. Raises `DataError` with file and line."""

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

        May return remarks for users, such as which texts get other vectors, one sentence each.

        The encoder is on the runtime `cpu`, in fp32; `encoder.placed.module` is its torch module. If the
        other library cannot produce the same vectors, raise `ModelError` with the part, the reason and an
        alternative.
        """


class Importer(Component):
    """Reads an encoder written by another library. Its fields are options of `sentbed import --set`.

    `recognises` is called on an importer without options: one with a required field must be named (`--from`).
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
        """Return sentences on what of `source` the encoder lacks; by default it has all of it."""
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
    """Scores of the cells of a study that have been run -> the cells to run next."""

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

        A cell is axis -> label, or the label's number if all labels of the axis have one. `scores` has the
        cells chosen before, in order, with None for one without a score; higher is better.
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

        It is for parameters of these names and shapes; the engine multiplies its updates by minus the
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
