"""What the parts of sentbed promise each other.

Core imports no tensor library, so a tensor is typed `Tensor` (= `Any`) here; shapes are in the docstrings.
Everything numeric that crosses from an engine to an evaluator is a NumPy array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Tensor: TypeAlias = Any
"""A tensor of the engine that runs: `torch.Tensor`."""

Module: TypeAlias = Any
"""A `torch.nn.Module`."""


# --- text and tokens -------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class TokenIds:
    """Token ids of `n` texts, ragged: text `i` is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: NDArray[np.int32]
    """All ids in one row, `(total,)`."""
    offsets: NDArray[np.int64]
    """`(n + 1,)`, starting at 0."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def join(cls, parts: Iterable[TokenIds]) -> TokenIds:
        """Return the texts of all parts, one after the other."""
        import numpy as np

        parts = list(parts)
        lengths = np.concatenate([part.lengths for part in parts])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return cls(np.concatenate([part.ids for part in parts]), offsets)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens a text, special tokens included, `(n,)`."""
        result: NDArray[np.int64] = self.offsets[1:] - self.offsets[:-1]
        return result


@attrs.frozen(eq=False)
class TokenBatch:
    """Token ids padded to one length."""

    input_ids: NDArray[np.int64]
    """`(batch, length)`."""
    attention_mask: NDArray[np.int64] | None
    """`(batch, length)`, 1 for a token and 0 for padding; None where nothing is padded."""


class Tokenizer(Protocol):
    """Text -> token ids, in bulk."""

    pad_id: int

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Tokenise with special tokens, cut to `max_length` tokens."""


class TokenStates(NamedTuple):
    """What a backbone's module returns and a pooler's module takes.

    A named tuple, because compilers trace tuples and refuse other classes.
    """

    last_hidden_state: Tensor
    """`(batch, length, width)`, the last layer."""
    attention_mask: Tensor | None
    """`(batch, length)`, 1 for a token and 0 for padding; None where nothing is padded."""


# --- components: frozen attrs classes that plugins offer ---------------------------------------------------


class Component(Protocol):
    """What every component has; its fields are its recipe parameters.

    A component may also define `check(self) -> Iterator[str]`: problems that can be seen without a heavy
    import (a file that does not exist, parameters that exclude each other), each a sentence that ends in
    what to do. `sentbed check` calls it.
    """

    name: ClassVar[str]
    """The name that a recipe uses."""


@attrs.frozen
class BuildContext:
    """What a backbone may need to be built."""

    texts: Callable[[], Iterable[str]]
    """The training texts of the recipe's stages, to train a tokenizer on; read only when called."""
    saved: Path | None = None
    """A directory that `BuiltBackbone.save` wrote; where given, weights and tokenizer come from here."""


class BuiltBackbone(Protocol):
    """A tokenizer and a transformer, on the host, in fp32."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Text -> token ids."""

    module: Module
    """`module(input_ids, attention_mask | None) -> TokenStates`."""
    width: int
    """Width of a token state."""
    max_length: int
    """The longest input in tokens that the positions allow."""
    origin: Mapping[str, Any]
    """Where the weights came from, with their hash, for the manifest."""

    def inference(self, module: Module, dtype: Any) -> Module:
        """Return a copy of `module` for encoding: no gradient, eval mode, weights in `dtype`."""

    def save(self, directory: Path) -> None:
        """Write weights (safetensors), configuration and tokenizer into `directory`."""


class Backbone(Component, Protocol):
    """Tokenizer + transformer: text -> token states."""

    def build(self, context: BuildContext) -> BuiltBackbone:
        """Load or initialise. The first heavy import happens here."""


class Pooler(Component, Protocol):
    """Token states -> one vector a sentence."""

    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, width)`.

        Where the vector is not as wide as a token state, the module says so in an attribute `width`.
        """


@attrs.frozen(eq=False)
class LossOutput:
    """What a loss returns."""

    loss: Tensor
    """Scalar, the mean over the batch."""
    metrics: Mapping[str, Tensor] = attrs.field(factory=dict)
    """Detached scalars for the log, by name."""


class Loss(Component, Protocol):
    """Sentence vectors -> a scalar to minimise."""

    needs: ClassVar[frozenset[str]]
    """The columns that the data must have."""

    def build(self, width: int) -> Module:
        """Return `module(vectors: Mapping[column, (batch, width)]) -> LossOutput`.

        The module is a pure function of its arguments and its parameters: nothing is kept between calls,
        gradients are stopped with `.detach()`.
        """


class Dataset(Protocol):
    """Rows of named text columns, addressed by number."""

    columns: tuple[str, ...]
    """Of `anchor`, `positive`, `negative`, ..."""
    fingerprint: str
    """A hash of the content, for the manifest."""

    def __len__(self) -> int: ...

    def rows(self, indices: Sequence[int]) -> Mapping[str, Sequence[str]]:
        """The texts of these rows, by column."""

    def texts(self) -> Iterator[str]:
        """Every text once through, for a tokenizer to be trained on."""


class DataSource(Component, Protocol):
    """Where training texts come from."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `open()` will give; known without reading the data."""

    def open(self) -> Dataset:
        """Read, or prepare to read. Raises `DataError` that names file and line."""


class TextEncoder(Protocol):
    """What an evaluator sees of an encoder."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, `(n, width)`, in the order given."""


@attrs.frozen
class Score:
    """One number and how it was obtained."""

    task: str
    metric: str
    value: float
    """In the papers' scale: correlations and accuracies x 100."""
    protocol: Mapping[str, Any]
    """Everything that makes the number comparable: id, aggregation, split, text rules, data hash."""
    encoder: str = ""
    """Filled in by the runner."""
    evaluator: str = ""
    """Filled in by the runner."""

    @property
    def protocol_name(self) -> str:
        """The protocol in a word or two, for tables: its id, and how subsets were aggregated."""
        return " ".join(str(self.protocol[key]) for key in ("id", "aggregation") if key in self.protocol)


@attrs.frozen(eq=False)
class Scatter:
    """Points for the report, e.g. gold score against cosine."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    y: Sequence[float]


@attrs.frozen(eq=False)
class Evaluation:
    """What an evaluator returns."""

    scores: tuple[Score, ...]
    primary: float
    """The number by which validation ranks checkpoints; higher is better."""
    scatters: tuple[Scatter, ...] = ()


class Evaluator(Component, Protocol):
    """Encoder -> named scores, each with its protocol."""

    def evaluate(self, encoder: TextEncoder) -> Evaluation:
        """Encode what the tasks need and score it. Raises `DataError` that names file and line."""


class Optimizer(Component, Protocol):
    """Gradients -> new weights."""

    lr: float

    def build(self, parameters: Sequence[tuple[str, Tensor]]) -> Any:
        """Return a `torch.optim.Optimizer` over these named parameters."""


class Schedule(Component, Protocol):
    """Step -> multiplier of the learning rate."""

    def factor(self, step: int, total_steps: int) -> float:
        """The multiplier, in [0, 1], for step `step` (from 0) of `total_steps`."""


class Runtime(Component, Protocol):
    """Where it runs."""

    def build(self) -> Engine:
        """Claim the device. Raises `RuntimeUnavailableError` where the machine cannot do it."""


# --- the engine: what a runtime builds ----------------------------------------------------------------------


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
    """Backbone, pooler and head on the engine's device."""

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
