"""Base classes of the components that plugins offer, and of the objects that components build.

A component is a frozen attrs class that inherits from the base class of its kind, such as `Pooler`. Its fields
are the keys of its table in a recipe; its properties, such as `needs`, are class
attributes, or follow from the fields. A method that is not abstract has a default.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar

import attrs

from sentbed.protocols.tokens import BlockStates, Module, Tensor, Tokenizer

Pooling: TypeAlias = Literal[
    "cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean"
]

Output: TypeAlias = Literal["vector", "tokens", "sparse"]
"""What an encoder computes for a text.

`vector`: one vector. `tokens`: one vector per token. `sparse`: one vector with a number for each token of the
vocabulary, most of which are 0.
"""

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Component(ABC):
    """Base class of all components. The fields of a component are the keys of its table in a recipe."""

    __slots__ = ()

    name: ClassVar[str]
    """Name of the component in recipes: `use = NAME`."""
    other_names: ClassVar[tuple[str, ...]] = ()
    """Names that other libraries have for it. A recipe cannot use them: the message about one leads to `name`."""

    @property
    def cites(self) -> tuple[str, ...]:
        """Papers to cite in model cards: keys of `sentbed/citations.bib`, or BibTeX entries (`@...`)."""
        return ()

    def check(self) -> Iterator[str]:
        """Yield problems that can be found without heavy imports, for `sentbed check`.

        Examples are missing files and conflicting fields. Each problem is a sentence that ends with a remedy.
        """
        return iter(())

    def misfits(self, place: Any) -> Iterator[str]:
        """Yield why the component cannot stand in its place. Each reason is a sentence that ends with a remedy.

        The place of a backbone, a pooler or a transform is its encoder, an `EncoderRecipe`. A runtime is asked
        about each encoder that it is to run, and an evaluator about the one that it is to score. The place of a
        loss is its stage (`StagePlace`). Core asks inner components, too.

        A study leaves out combinations of parts that do not fit.
        """
        return iter(())

    def remarks(self) -> Iterator[str]:
        """Yield facts that a user should know before a run, one sentence each, such as what will be downloaded.

        Only `sentbed check` calls this method, once for all equal components. The method may wait a few seconds
        for a server; if the server does not answer, it yields nothing. If the server says that the component
        cannot work, for example because there is no such model, the method raises a `SentbedError`.
        """
        return iter(())


Part = TypeVar("Part", bound=Component)


def _fields(component: Component) -> tuple[attrs.Attribute[Any], ...]:
    """Return the fields of a component; none if its class is no attrs class."""
    return getattr(component, "__attrs_attrs__", ())


def inner_parts(component: Component, base: Callable[..., Part]) -> tuple[Part, ...]:
    """Return the inner components of a component: those of class `base` in its fields, alone or in arrays.

    Core has built each of them from a table of the recipe, and called its `check`.
    """
    cls: Any = base
    parts: list[Part] = []
    for field in _fields(component):
        value = getattr(component, field.name)
        values = value if isinstance(value, tuple) else (value,)
        for part in values:
            if isinstance(part, cls):
                parts.append(part)
    return tuple(parts)


class _OfInner(property):
    """A property that a component with inner components of its kind takes over from the first of them."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self.kind = owner
        self.name = name

    def __get__(self, component: Any, owner: Any = None) -> Any:
        if component is not None:
            for inner in inner_parts(component, self.kind):
                return getattr(inner, self.name)
        return super().__get__(component, owner)


if TYPE_CHECKING:
    of_inner = property
else:
    of_inner = _OfInner


@attrs.frozen
class BuildContext:
    """Arguments for building a backbone."""

    texts: Callable[[], Iterable[str]]
    """Returns all training texts of this encoder in the recipe, for training a tokenizer."""
    saved: Path | None = None
    """Directory that `BuiltBackbone.save` wrote, from which to load the weights and the tokenizer.

    None if the backbone is not built from a saved encoder.
    """
    needs: frozenset[str] = frozenset()
    """Needs of the pooler (`Pooler.needs`). They say which fields of `TokenStates` to compute."""
    template: tuple[str, str] | None = None
    """Text before and after the sentence in the encoder's only prompt, with `{mask}` for the mask token.

    None if the encoder has no prompt, or several.
    """
    shapes_only: bool = False
    """Whether only shapes are needed, for `sentbed plan`.

    The backbone is then built on torch's device `meta`, without reading or downloading weights. Its tokenizer
    may be None if the tokenizer is not on this machine. A quantized parameter has its size in bytes in its
    attribute `held_bytes`.
    """


class BuiltBackbone:
    """A backbone's tokenizer and transformer, in the memory of the host.

    A subclass must set the attributes that have no default, and implement `save`.
    """

    tokenizer: Tokenizer
    """Tokenizer of the transformer."""
    module: Module
    """Transformer, called as `module(input_ids, attention_mask | None, **keywords) -> TokenStates`.

    The keywords are `TokenBatch.keywords`: the optional fields of the batch that the tokenizer has filled, often
    none.
    """
    width: int
    """Dimension of a token state."""
    max_length: int
    """Largest input length in tokens that the position embeddings allow."""
    origin: Mapping[str, Any] = MappingProxyType({})
    """Source of the weights and their hash, for the manifest."""
    shares_prefix: bool = False
    """Whether the result of `inference` accepts a prefix: `module(input_ids, attention_mask, prefix)`.

    The prefix has the ids, `(shared,)`, that precede every row. `TokenStates` and its mask then include the
    prefix.
    """
    dispatched: bool = False
    """Whether the weights are already on their devices."""
    weights_directory: Path | None = None
    """Directory with the files of the pretrained weights, from which a pooler may load weights, too.

    None if the weights are random, or come from a saved encoder.
    """
    training_pass_cost: int = 128
    """Fixed cost of a forward and backward pass, in padded tokens.

    Texts of different lengths are put into one pass if that adds fewer padding tokens than this.
    """

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Entries for the protocol of every score, such as the layers that are used."""
        return {}

    def inference(
        self,
        module: Module,
        dtype: Any,
        traceable: bool = False,
    ) -> Module:
        """Return a copy of `module` for encoding: without gradient, in eval mode, with weights in `dtype`.

        With `traceable`, the copy uses only operations that a compiler supports.
        """
        return copy.deepcopy(module).to(dtype).eval().requires_grad_(False)

    def save(self, directory: Path) -> None:
        """Create `directory`, and write weights (safetensors), configuration and tokenizer into it."""
        raise NotImplementedError

    def output_embedding(self) -> Any:
        """Return the last matrix of the language-modelling head, float32 `(tokens, width)`, in NumPy.

        A backbone that `predicts` must implement it.
        """
        raise NotImplementedError

    def merged(self) -> tuple[Backbone, BuiltBackbone] | None:
        """Return the component and the backbone with adapters merged into the weights, for `sentbed export`.

        Return None if there are no adapters.
        """
        return None


class Backbone(Component):
    """Tokenizer and transformer: computes token states from texts."""

    __slots__ = ()

    @of_inner
    def offers(self) -> frozenset[str] | None:
        """What the backbone can do: needs of poolers (`Pooler.needs`) that it meets, and points at which
        interventions can act.

        `span` means that it can hide tokens from poolers: in a template that has the sentence twice, they read
        the second copy only. None means unknown: `sentbed check` then does not compare it with needs of poolers.
        """
        return None

    @of_inner
    def heeds(self) -> frozenset[str] | None:
        """Needs of poolers that change how the backbone is built or what it computes; None means all.

        Encoders whose poolers differ only in other needs may share a forward pass.
        """
        return None

    @of_inner
    def from_files(self) -> bool:
        """Whether the backbone is built from files alone, without random numbers and training texts."""
        return False

    @of_inner
    def pretrained(self) -> bool:
        """Whether the weights are pretrained; otherwise they are random."""
        return True

    @of_inner
    def runs_code(self) -> bool:
        """Whether building the backbone runs Python code from the model's repository (`trust_remote_code`)."""
        return False

    @of_inner
    def model(self) -> str | None:
        """Model that provides the weights or the architecture: a hub id or a directory."""
        return None

    @of_inner
    def predicts(self) -> bool:
        """Whether the built backbone has a language-modelling head; see `BuiltBackbone.output_embedding`."""
        return False

    @of_inner
    def placeholder(self) -> str | None:
        """Token that each prompt must contain once.

        If it is missing, it is put before the sentence, or before the quotation mark that opens it.
        """
        return None

    @of_inner
    def auxiliary(self) -> str | None:
        """Template of a second prompt for each sentence; see `TokenBatch.auxiliary`."""
        return None

    @of_inner
    def untrainable(self) -> str | None:
        """Why encoders with this backbone cannot be trained: a sentence with a remedy; None if they can.

        `sentbed check` refuses a stage that would train them.
        """
        return None

    @abstractmethod
    def build(self, context: BuildContext) -> BuiltBackbone:
        """Load or initialise the backbone. Only this method may import heavy libraries."""

    def most_tokens(self) -> int | None:
        """Return the largest input length in tokens, or None if it is unknown.

        By default, return that of the inner backbone. This method must not import heavy libraries; the exact
        number is `BuiltBackbone.max_length`.
        """
        for inner in inner_parts(self, Backbone):
            return inner.most_tokens()
        return None


class Intervention(Component):
    """Changes the states within a backbone. It has no trained weights and keeps nothing between calls."""

    __slots__ = ()

    @property
    def placeholder(self) -> str | None:
        """Token that each prompt must contain. Its embedding is drawn from N(0, 1)."""
        return None

    @property
    def placeholder_spacing(self) -> Literal["stripped", "kept"] | None:
        """Whether the tokenizer strips the space before the placeholder.

        None means what transformers 4 does for a token that is added without further settings.
        """
        return None

    @property
    def auxiliary(self) -> str | None:
        """Second prompt, which the backbone reads first: a template or its name; see `BlockStates.auxiliary`."""
        return None

    @property
    def shares_prefix(self) -> bool:
        """Whether a prefix that all texts have in common can be computed once.

        The intervention must neither change nor read the states before the placeholder. Without a placeholder, it
        must neither change nor read those before the last token.
        """
        return False

    @property
    @abstractmethod
    def places(self) -> Collection[tuple[str, int]]:
        """Where the intervention acts: pairs of a point in a block, and the number of the block, from 0.

        The point `block-input` is the input of the block. The point `attention-heads` is the concatenated
        outputs of the block's attention heads, before the output projection. A backbone lists its points in
        `offers`.
        """

    @abstractmethod
    def build(self) -> Callable[[BlockStates], Tensor]:
        """Return a function that computes the new states, of the same shape. It must not change its input."""


POOLER_NEEDS: Mapping[str, str] = MappingProxyType(
    {
        "bidirectional": "attention in both directions (in a causal model the first token has seen nothing "
        "of the text, and every text gets the same vector)",
        "causal": "causal attention (its vector is the state from which the next word is predicted)",
        "decoder": "a decoder that reads the encoded text",
        "mask-token": "a mask token in the vocabulary",
        "layers": "the states of every layer",
        "logits": "the logits of a masked language model's head",
        "template-alone": "the state of the template without a sentence",
        "template-alone-from-0": "the state of the template without a sentence, at positions from 0",
        "template": "a prompt around the sentence",
        "span": "the states of one of several copies of the sentence",
    }
)
"""Words for what a pooler may need (`Pooler.needs`), and how messages describe it."""


class Pooler(Component):
    """Computes one vector per sentence, or one per token, from token states."""

    __slots__ = ()

    @of_inner
    def needs(self) -> frozenset[str]:
        """What the pooler needs from the backbone and the prompt.

        They are words of `POOLER_NEEDS`, or words of your own that your backbones offer (`Backbone.offers`). The
        prompt must meet the need `template`; fields of `TokenStates` have the states of `decoder`, `mask-token`,
        `template-alone`, `template-alone-from-0` and `layers`.
        """
        return frozenset()

    @of_inner
    def prompt(self) -> Any:
        """Prompt (a `Prompt`) that encoders with this pooler have by default; None for no prompt."""
        return None

    @of_inner
    def at_test(self) -> str | None:
        """Name of the pooling in eval mode, if it differs from the pooling in training.

        A projection after such a pooler is refused: it would be trained on other vectors than it is applied to.
        """
        return None

    @of_inner
    def pretrained(self) -> bool:
        """Whether the module starts with weights from the backbone's files; see `Pooler.load_pretrained`."""
        return False

    @of_inner
    def new_layer(self) -> bool:
        """Whether encoding uses a layer of the pooler that starts with random weights.

        The vectors are then meaningless before training.
        """
        return False

    @property
    def pooling(self) -> Pooling | None:
        """Pooling mode of sentence-transformers that gives the same vectors in eval mode, for exporters.

        For texts with padding, it may give other vectors. None if there is no such mode.
        """
        return None

    @property
    def dense(self) -> str | None:
        """Attribute of the pooler's module that has a linear layer, if this layer and tanh follow `pooling`."""
        return None

    @of_inner
    def output(self) -> Output:
        """What the pooler computes for a text; see `Pooler.build`."""
        return "vector"

    @abstractmethod
    def build(self, width: int) -> Module:
        """Return a module from `TokenStates` to sentence vectors, `(batch, output_width(width))`.

        `width` is the dimension of a token state. In training mode, the vectors have the dimension
        `trained_width(width)`. With `output = "tokens"`, the module returns `TokenVectors`: vectors
        `(batch, length, output_width(width))`, and a mask of the tokens that count. With `output = "sparse"`,
        most numbers of a vector are 0.
        """

    def output_width(self, width: int) -> int:
        """Return the dimension of a sentence vector; `width` is the dimension of a token state.

        By default, it is that of the first inner pooler; without an inner pooler, `width`.
        """
        for inner in inner_parts(self, Pooler):
            return inner.output_width(width)
        return width

    def trained_width(self, width: int) -> int:
        """Return the dimension of a sentence vector in training mode; `width` is the dimension of a token state.

        It differs from `output_width` if a layer that changes the dimension is used only in training.
        """
        if type(self).output_width is not Pooler.output_width:
            return self.output_width(width)
        for inner in inner_parts(self, Pooler):
            return inner.trained_width(width)
        return width

    def load_pretrained(self, module: Module, directory: Path) -> None:
        """Load pretrained weights from the files in `directory` into `module`, the result of `build`.

        Called once, before training, if the pooler is `pretrained`. By default, each inner pooler that is
        `pretrained` loads its weights into the submodule that is named like the inner pooler's field.

        Raises:
            ModelError: if the files lack the weights.
        """
        for field in _fields(self):
            inner = getattr(self, field.name)
            if isinstance(inner, Pooler) and inner.pretrained:
                inner.load_pretrained(module.get_submodule(field.name), directory)


class Similarity(Component):
    """Similarity of two encoded texts. A higher value means that the texts are more alike.

    If the recipe of an encoder names a similarity, evaluators and losses use it instead of the cosine. The
    methods are differentiable functions of tensors and keep nothing between calls.
    """

    __slots__ = ()

    @property
    def compares(self) -> frozenset[Output]:
        """Outputs of poolers (`Pooler.output`) that the similarity can compare."""
        return frozenset({"vector"})

    @property
    def formula(self) -> Literal["cosine", "dot"] | None:
        """`cosine` or `dot` if the similarity is one of them; evaluators then compute it themselves, in float64.

        None if it is another one.
        """
        return None

    def normalize(self, vectors: Any) -> Any:
        """Prepare vectors for comparison, for example by L2 normalisation. Called once for each text.

        The argument and the result are a tensor `(n, width)`, or `TokenVectors` if the similarity compares
        tokens.
        """
        return vectors

    @abstractmethod
    def similarity(self, first: Any, second: Any) -> Tensor:
        """Return the similarity of each row of `first` to each row of `second`, `(n, m)`.

        Both arguments are results of `normalize`. Callers pass blocks of rows, so that the result fits into
        memory.
        """

    def pairwise(self, first: Any, second: Any) -> Tensor:
        """Return the similarity of row i of `first` and row i of `second`, `(n,)`.

        The default computes `similarity` and takes its diagonal. That is n times the work, so callers pass few
        rows.
        """
        return self.similarity(first, second).diagonal()


@attrs.frozen(eq=False)
class LossOutput:
    """Result of a loss."""

    loss: Tensor
    """Scalar loss, the mean over the batch."""
    metrics: Mapping[str, Tensor] = attrs.field(factory=dict)
    """Scalars to log, by name; detached from the graph."""
    state: Mapping[str, Tensor] | None = None
    """State for the next step, detached from the graph; None for a loss that needs no `state`."""


LABEL = "label"
"""Column of a data source that has class names instead of texts; see `Loss.classes`."""

PROGRESS = "stage.progress"
"""Input of a loss that says which share of the stage's steps is done; see `LOSS_NEEDS`."""

LOSS_NEEDS: Mapping[str, str] = MappingProxyType(
    {
        "text-ids": "its `inputs` have `COLUMN.id`, int64 `(batch,)`, for each column of texts; equal texts have "
        "equal numbers, across columns and steps",
        "progress": "its `inputs` have `stage.progress`, a float32 scalar: the share of the stage that is done, "
        "0 in the first step and nearly 1 in the last",
        "state": "it passes a state from step to step; see `Loss.build`",
    }
)
"""Words for what a loss may need beside columns (`Loss.needs`), and what each means."""


@attrs.frozen
class StagePlace:
    """What a stage says of the place of its loss; see `Component.misfits`."""

    batch_size: int
    """Number of rows of a batch."""
    fixed: frozenset[str] = frozenset()
    """Columns that frozen encoders encode."""


class Loss(Component):
    """Computes a scalar to minimise from the sentence vectors of a batch."""

    __slots__ = ()

    @property
    @abstractmethod
    def columns(self) -> frozenset[str]:
        """Columns that the data must have."""

    @of_inner
    def needs(self) -> frozenset[str]:
        """What the loss needs beside columns: words of `LOSS_NEEDS`."""
        return frozenset()

    @of_inner
    def takes(self) -> frozenset[str] | None:
        """Further columns that the loss uses if the data has them; None means all columns of the data.

        A column that is in neither set is not encoded.
        """
        return None

    @of_inner
    def classes(self) -> tuple[str, ...]:
        """Class names that may occur in the column `label`, for a loss that needs this column."""
        return ()

    @of_inner
    def numbers(self) -> frozenset[str]:
        """Columns that must have numbers instead of texts, such as `{"score"}`."""
        return frozenset()

    @of_inner
    def momentum(self) -> float | None:
        """Momentum, in [0, 1), of a moving average of the encoder's weights, as in MoCo; None for no average.

        An encoder with the averaged weights encodes the columns `keys`, without gradient. After each step, the
        average becomes `momentum * average + (1 - momentum) * weights`.
        """
        return None

    @of_inner
    def keys(self) -> frozenset[str]:
        """Columns that the encoder with the averaged weights encodes."""
        return frozenset()

    @of_inner
    def targets(self) -> frozenset[str]:
        """Columns that a frozen encoder, such as a teacher, encodes. Its vectors may have another dimension."""
        return frozenset()

    @of_inner
    def reads(self) -> frozenset[Output]:
        """Outputs of poolers (`Pooler.output`) that the loss can train; see `Loss.build`."""
        return frozenset({"vector"})

    @abstractmethod
    def build(self, width: int) -> Module:
        """Return a module that is called as `module(inputs: Mapping[str, Tensor]) -> LossOutput`.

        `inputs` has, for each column of texts, float32 vectors `(batch, width)`; for each column of numbers
        (`Loss.numbers`), float32 `(batch,)`; for the column `label`, class indices `(batch,)`. What
        the loss `needs` adds to them, `LOSS_NEEDS` says.

        The module is a pure function of its arguments and parameters: it keeps nothing between calls, and stops
        gradients with `.detach()`. The module or a submodule may have the attribute `learning_rates`, a
        dictionary from the name of one of its parameters to a peak learning rate, in place of the optimiser's.

        If the loss needs a `state`, the module has a method `initial_state() -> dict[str, Tensor]` and is called
        as `module(inputs, state)`. The `state` of its output is passed to the next step, and saved with every
        checkpoint.

        If the encoder's pooler has `output = "tokens"`, `inputs` has `TokenVectors` for each column of texts.
        """

    def compared_by(self, similarity: Similarity) -> Loss:
        """Return the loss with the similarity of the encoder that it trains.

        By default, the similarity is passed on to the inner losses; a loss without inner losses is returned
        unchanged.
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


def _compared(value: Any, similarity: Similarity) -> Any:
    """Return the value of a loss's field, with every loss in it given the similarity by `compared_by`."""
    if isinstance(value, Loss):
        return value.compared_by(similarity)
    if isinstance(value, tuple):
        return tuple(_compared(item, similarity) for item in value)
    return value


class Dataset(ABC):
    """Training data: rows with named columns.

    A value is a text, or a number if `DataSource.numbers` has its column.
    """

    __slots__ = ()

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
        """Whether the texts of a row change from epoch to epoch."""
        return False

    @property
    def left_out(self) -> Mapping[str, int]:
        """Number of rows that were left out, for each reason; for the manifest."""
        return {}

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def rows(
        self, indices: Sequence[int], epoch: int = 0
    ) -> Mapping[str, Sequence[Any]]:
        """Return the values of these rows (texts or numbers) for each column.

        `epoch` counts passes over the data from 0, for a source that varies its texts from epoch to epoch. The
        same arguments must always give the same texts.
        """

    @abstractmethod
    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Yield every text in these columns, for training a tokenizer; None means all columns."""

    def order(self, key: Sequence[int], epoch: int) -> NDArray[np.int64]:
        """Return the indices of an epoch's rows in the order of training; by default all rows, shuffled.

        The arguments must determine the result. Every epoch has as many rows. `key` is the seed of the run and
        the index of the stage.
        """
        import numpy as np

        return np.random.default_rng([*key, epoch]).permutation(len(self))

    def batches(
        self,
        batch_size: int,
        key: Sequence[int],
        epoch: int,
    ) -> list[NDArray[np.int64]]:
        """Return the indices of the rows of each batch of an epoch; by default, `order` is cut into batches.

        A last batch of a single row is left out, since it has no negatives.
        """
        return cut_into_batches(self.order(key, epoch), batch_size)


def cut_into_batches(
    rows: NDArray[np.int64],
    batch_size: int,
) -> list[NDArray[np.int64]]:
    """Return rows in batches. The last may be smaller; it is left out if it has a single row."""
    batches = []
    for start in range(0, len(rows) - 1, batch_size):
        batches.append(rows[start : start + batch_size])
    return batches


class DataSource(Component):
    """Source of training data."""

    __slots__ = ()

    @property
    def fetches(self) -> bool:
        """Whether `open` uses the network; by default, whether an inner source does."""
        return any(source.fetches for source in inner_parts(self, DataSource))

    @property
    def numbers(self) -> frozenset[str]:
        """Columns of numbers: `Dataset.rows` returns finite floats for them, and `Dataset.texts` leaves them out.

        By default, those of the inner sources.
        """
        numbers: frozenset[str] = frozenset()
        for source in inner_parts(self, DataSource):
            numbers |= source.numbers
        return numbers

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns of the data set that `open` returns. This property must not read the data."""

    @abstractmethod
    def open(self) -> Dataset:
        """Return the data set, which may read its rows later.

        Raises:
            DataError: if the data cannot be used. The message has the file and the line.
        """

    def files(self) -> Iterable[Path]:
        """Return the files and directories that the source reads although no field names them.

        A study hashes them, and a run compares them with the test data of its evaluations.
        """
        return ()


AnyEncoder: TypeAlias = Any
"""A `sentbed.Encoder`. That class is not defined in the protocols."""


class Exporter(Component):
    """Writes an encoder in another library's format. Its fields are set by `sentbed export --set`."""

    __slots__ = ()

    @abstractmethod
    def write(self, encoder: AnyEncoder, directory: Path) -> Iterable[str] | None:
        """Write an encoder into the empty `directory`, which is moved to its final path afterwards.

        The encoder is on the runtime `cpu`, in float32; `encoder.placed.module` is its torch module. The method
        may return remarks for the user, one sentence each, such as for which texts the vectors will differ.

        Raises:
            ModelError: if the other library cannot produce the same vectors. The message has the part of the
                encoder, the reason and an alternative.
        """


class Importer(Component):
    """Reads an encoder that another library wrote. Its fields are set by `sentbed import --set`."""

    __slots__ = ()

    @abstractmethod
    def read(self, source: Path) -> AnyEncoder:
        """Return the encoder with the weights of `source`, on the runtime `cpu`.

        Raises:
            ModelError: if a part of `source` is not supported. The message has the part and a remedy.
        """

    def notes(self, source: Path) -> Iterable[str]:
        """Return one sentence for each part of `source` that the encoder does not have; by default none."""
        return ()


Start: TypeAlias = Callable[[int | None], Callable[[Any], Any]]
"""Function that a worker of an executor calls before its first task, with the number of threads that it may use
(None: no limit). It loads what all tasks need, and returns the function `task -> result`."""


class Executor(Component):
    """Runs the tasks of a long job, on this machine or others.

    Its fields, such as `workers`, are command options.
    """

    __slots__ = ()

    @abstractmethod
    def run(
        self,
        start: Start,
        tasks: Sequence[Any],
        say: Callable[[str], object] = print,
    ) -> Generator[tuple[Any, Any], None, None]:
        """Yield each task with its result, in order of completion.

        Args:
            start: Called once per worker.
            tasks: Tasks to run. Tasks, results and `start` are pickled.
            say: Called with a line about each worker that died.

        A worker that dies costs its task one more try. The result of a task whose workers have all died is a
        `RunError`, which is yielded. An exception of the function is raised here, and ends all tasks. Workers end
        when the generator is closed: use `contextlib.closing`.

        Raises:
            RuntimeUnavailableError: if this machine or the cluster has no place for the workers.
        """


class Optimizer(Component):
    """Computes new weights from gradients."""

    __slots__ = ()

    @property
    @abstractmethod
    def lr(self) -> float:
        """Peak learning rate. In a subclass, it is a field."""

    @abstractmethod
    def build(self, parameters: Sequence[tuple[str, Tensor]]) -> Any:
        """Return a `torch.optim.Optimizer` over these named parameters."""

    def build_optax(self, shapes: Mapping[str, tuple[int, ...]]) -> Any:
        """Return the equivalent `optax.GradientTransformation`, for engines on JAX; None if there is none.

        `shapes` has the shape of each parameter. The engine multiplies the updates by the negative learning rate
        of the step.
        """
        return None

    def state_bytes(self, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        """Return the size in bytes of the state for float32 parameters of these shapes, or None if unknown."""
        return None


class Schedule(Component):
    """Multiplies the learning rate by a factor that depends on the step."""

    __slots__ = ()

    @abstractmethod
    def factor(self, step: int, total_steps: int) -> float:
        """Return the factor, in [0, 1], for a step; `step` counts from 0."""


class Tracker(Component):
    """Follows a run and sends its progress and results elsewhere, such as to a server."""

    __slots__ = ()

    @abstractmethod
    def build(self) -> object:
        """Return an object that implements lifecycle hooks with `@sentbed.hookimpl`."""
