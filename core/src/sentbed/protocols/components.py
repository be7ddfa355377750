"""Components: the frozen attrs classes that plugins offer, and what they build."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

import attrs

from sentbed.protocols.tokens import Module, Tensor, Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed._encoder.encoder import Encoder
    from sentbed.protocols.engine import Engine


class Component(Protocol):
    """What every component has; its fields are its recipe parameters.

    A component may also define `check(self) -> Iterator[str]`: problems that can be seen without a heavy
    import (a file that does not exist, parameters that exclude each other), each a sentence that ends in
    what to do. `sentbed check` calls it.

    And `cites: tuple[str, ...]`, a class attribute or property: the papers behind it, for model cards. Each
    is a key of `sentbed/citations.bib`, or a whole BibTeX entry, which begins with `@`.
    """

    name: ClassVar[str]
    """The name that a recipe uses."""


@attrs.frozen
class BuildContext:
    """What a backbone may need to be built."""

    texts: Callable[[], Iterable[str]]
    """The texts that the recipe's stages give this encoder, to train a tokenizer; read only when called."""
    saved: Path | None = None
    """A directory that `BuiltBackbone.save` wrote; where given, weights and tokenizer come from here."""
    needs: frozenset[str] = frozenset()
    """What the pooler needs (see `Pooler`): `TokenStates` must have it, nothing else is to be computed."""


class BuiltBackbone(Protocol):
    """A tokenizer and a transformer, on the host.

    It may also have `shares_prefix: bool`: whether `inference(...)(input_ids, attention_mask, prefix)` takes
    ids `(shared,)` that stand before every row; `TokenStates` and its mask then include them. And
    `merged() -> tuple[Backbone, BuiltBackbone]`: the same without adapters, and its component, for
    `Encoder.export`; `dispatched: bool`: whether its weights are on their devices already; and
    `protocol: Mapping[str, Any]`: what every score is to say of it, such as the layers that it reads.
    """

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

    def inference(self, module: Module, dtype: Any, traceable: bool = False) -> Module:
        """Return a copy of `module` for encoding: no gradient, eval mode, weights in `dtype`.

        `traceable`: only of operations that a compiler knows.
        """

    def save(self, directory: Path) -> None:
        """Write weights (safetensors), configuration and tokenizer into `directory`, which it makes."""


class Backbone(Component, Protocol):
    """Tokenizer + transformer: text -> token states.

    A backbone may say what it `offers: frozenset[str]` to a pooler, in the words of `Pooler`; of one that
    does not, `sentbed check` believes everything. `misfits(needs) -> Iterator[str]` may yield what of its
    fields cannot work with a pooler's needs, `untrainable: str | None` say why no stage can train it.

    Encoders that differ in what comes after the backbone may share one pass through it. For that it may say
    which needs it `heeds: frozenset[str]`, those that change what it builds or computes (all, if it does not
    say), and whether it is `from_files: bool`: building it draws no number and reads no text.
    """

    def build(self, context: BuildContext) -> BuiltBackbone:
        """Load or initialise. The first heavy import happens here."""


class Pooler(Component, Protocol):
    """Token states -> one vector a sentence.

    A pooler may have further class attributes or properties:

    - `needs: frozenset[str]`, of `bidirectional` (every token has seen the whole text), `causal` (the last
      one has, and no other), `decoder`, `mask-token`, `layers` (see `TokenStates`), `template` (a prompt
      around the sentence), or words of a plugin's own that some backbone `offers`;
    - `template: str` and `normalizer: str`, the prompt where the recipe says nothing; see `prompts.Prompt`;
    - `at_test: str`, the name of what it computes in eval mode, where that differs from training;
    - `pooling: str`, what it computes in eval mode in the words of sentence-transformers, for exporters:
      `cls`, `lasttoken`, `max`, `mean`, `mean_sqrt_len_tokens` or `weightedmean`, over the real tokens;
      and `dense: str | None`, the attribute of its module that is a linear layer behind that, followed by
      tanh.
    """

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
    state: Mapping[str, Tensor] | None = None
    """Of a loss with state: what the next step is to be given, detached."""


LABEL = "label"
"""The column of a data source that holds the name of a class, not a text; see `Loss.classes`."""


class Loss(Component, Protocol):
    """Sentence vectors -> a scalar to minimise.

    A loss may have further class attributes, fields or methods:

    - `takes: frozenset[str]`, the columns that it uses where the data has them, beside those that it
      `needs`; no other column is encoded. A loss that does not say is given every column.
    - `classes: tuple[str, ...]`, the names that the column `label` may hold, for a loss that needs it.
    - `compares_texts: bool`: whether `inputs` is to have `COLUMN.id`, int64 `(batch,)`, for each column of
      texts: the same number for the same text, in every column and step.
    - `momentum: float`, in [0, 1), and `keys: frozenset[str]`: these columns are encoded without gradient by
      a copy of the encoder whose weights are an exponential moving average of its own, updated after each
      step as `momentum * average + (1 - momentum) * weights`.
    - `misfits(batch_size: int, fixed: frozenset[str]) -> Iterator[str]`: what of its fields cannot work with
      batches of so many rows, where the columns `fixed` come from a tower that this stage does not train.
    """

    needs: ClassVar[frozenset[str]]
    """The columns that the data must have."""

    def build(self, width: int) -> Module:
        """Return `module(inputs: Mapping[str, Tensor]) -> LossOutput`.

        `inputs` has the fp32 vectors `(batch, width)` of each column by its name, and `label` `(batch,)`, the
        numbers of the classes. The module is a pure function of its arguments and its parameters: nothing is
        kept between calls, gradients are stopped with `.detach()`.

        It may have `initial_state() -> dict[str, Tensor]`: then it is called as `module(inputs, state)`, and
        what its output has as `state` is given to the next step; it is saved with every checkpoint.
        """


@attrs.frozen
class Mixture:
    """How to draw from a data set that is made of parts; its rows are those of part 0, then of part 1, ..."""

    sizes: tuple[int, ...]
    """Rows of each part."""
    takes: tuple[int, ...]
    """Rows that an epoch takes of each part; of a part with fewer, it begins again in another order. All of
    them are rows of that epoch: a source that changes its texts gives a row that comes again the same one."""
    in_turn: bool = False
    """Whether parts follow each other in strict turn; else their order is shuffled."""
    whole_batches: bool = False
    """Whether all rows of a batch come from one part."""


class Dataset(Protocol):
    """Rows of named text columns, addressed by number.

    It may have `mixture: Mixture`, where it is made of parts; `varies: bool`, whether its texts change from
    pass to pass; and `left_out: Mapping[str, int]`, for the manifest: what it does not give, and how often.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """Of `anchor`, `positive`, `negative`, `label`, ..."""

    @property
    def fingerprint(self) -> str:
        """A hash of the content, for the manifest, and of everything that decides what `rows` returns."""

    def __len__(self) -> int: ...

    def rows(self, indices: Sequence[int], epoch: int = 0) -> Mapping[str, Sequence[str]]:
        """The texts of these rows, by column.

        `epoch` counts the passes over the data from 0, for a source that changes its texts from pass to pass;
        the same arguments always give the same texts.
        """

    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Every text of these columns once through, for a tokenizer to be trained on; None: of all."""


class DataSource(Component, Protocol):
    """Where training texts come from."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `open()` will give; known without reading the data."""

    def open(self) -> Dataset:
        """Read, or prepare to read. Raises `DataError` that names file and line."""


class TextEncoder(Protocol):
    """What an evaluator sees of an encoder.

    It may have further attributes; an evaluator asks for them with `getattr` and does without:

    - `second: TextEncoder | None`, for an evaluator whose class says `two_sided = True`: what encodes the
      second sentence of each pair, the tower of another language;
    - `device: str`, where an evaluator that trains a classifier computes, in torch's words (`cpu`, `cuda:0`);
    - `progress(what: str, done: int, total: int)`, to be called with how far a part of the evaluation is
      (`encode` reports itself);
    - `at_length(max_length: int) -> TextEncoder`, the same encoder as it cuts texts at so many tokens,
      special tokens included. It computes every vector that it is asked for, and reports nothing: it can be
      timed;
    - `machine: Mapping[str, Any]`, what the engine says of itself: device, threads, precision.
    """

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, `(n, width)`, in the order given."""


@attrs.frozen(eq=False)
class Items:
    """What a score was computed from, item by item, so that it can be resampled (`sentbed-report`).

    Two encoders that are scored on the same data by the same protocol have the same items in the same order.
    """

    statistic: Literal["mean", "spearman", "pearson", "matthews", "f1"]
    """How the score follows from the items: the mean of `x`, or a statistic of `x` and `y`."""
    x: NDArray[np.float64]
    """`(n,)`: of `mean` the value of each item, such as 1 where it was found correctly; else the gold."""
    y: NDArray[np.float64] | None = None
    """`(n,)`: what stands against the gold: the cosine, or the class found; None for `mean`."""
    groups: NDArray[np.int64] | None = None
    """`(n,)`, numbers from 0: the score is a mean over these groups, such as the subsets of an STS year."""
    weighted: bool = False
    """Whether each group counts as often as it has items."""
    scale: float = 100.0
    """The score is the statistic times this."""


Direction: TypeAlias = Literal["higher", "lower", "none"]
"""Which way a score is better."""


@attrs.frozen
class Score:
    """One number and how it was obtained."""

    task: str
    metric: str
    value: float
    """In the papers' scale: correlations and accuracies x 100."""
    protocol: Mapping[str, Any]
    """Everything that makes the number comparable. An evaluator gives its own part: id, aggregation, split,
    text rules, data hash. The runner makes it `{"encoder": how text became a vector, "evaluator": that}`."""
    encoder: str = ""
    """Filled in by the runner."""
    evaluator: str = ""
    """Filled in by the runner, with the encoder's part of the protocol."""
    items: Items | None = attrs.field(default=None, eq=False, repr=False)
    """What it was computed from; None where it cannot be resampled."""
    plugin: str = ""
    """Distribution and version of the evaluator, filled in by the runner; no part of the protocol."""
    direction: Direction = "higher"
    """Which way is better, for marks and ranks; `none`: neither, and nothing is marked."""
    note: str = ""
    """A remark on the result, such as why it is 0; no part of the protocol."""
    axis: Literal["", "x", "y"] = ""
    """Where the report is to draw two scores of one task and protocol against each other, which axis is this
    one's, as for alignment over uniformity."""

    @property
    def evaluator_protocol(self) -> Mapping[str, Any]:
        """The evaluator's part of the protocol, also before the runner has put the encoder's beside it."""
        return self.protocol["evaluator"] if self.evaluator else self.protocol

    @property
    def protocol_id(self) -> str:
        """The id under which the evaluator measured; empty where it gives none."""
        return str(self.evaluator_protocol.get("id", ""))

    @property
    def protocol_name(self) -> str:
        """The protocol in a word or two, for tables: its id, and how subsets were aggregated."""
        said = self.evaluator_protocol
        return " ".join(str(said[key]) for key in ("id", "aggregation") if key in said)


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
    """Encoder -> named scores, each with its protocol.

    The first score of a task is the one that papers print; tables have the tasks in the order of the scores.

    An evaluator may say `development: bool` (an attribute or property): whether everything that it scores is
    development or training data. Only such an evaluator may choose a prompt (`[search]`) or a checkpoint
    (`validate`); of one that does not say, test data is assumed. And `two_sided: bool`: whether it uses
    `TextEncoder.second`. And `read() -> object`, which reads all its data, without an encoder, and raises
    `DataError` for what is wrong with it: a run calls it before anything is built. And
    `files() -> Iterable[Path]`, files and directories that it reads and no field of it names: a study knows
    its cells by their content. And `texts() -> Iterable[str]`, on which an encoder with random weights may
    train a tokenizer where no stage gives it texts.
    """

    def evaluate(self, encoder: TextEncoder) -> Evaluation:
        """Encode what the tasks need and score it. Raises `DataError` that names file and line."""


class Exporter(Component, Protocol):
    """An encoder -> files that another library reads. Its fields are options of `sentbed export --set`."""

    def write(self, encoder: Encoder, directory: Path) -> Iterable[str] | None:
        """Write into `directory`, which is empty; it appears when all is written.

        It may return what users should know, such as which texts get other vectors: a sentence each.

        The encoder is on the runtime `cpu`, in fp32; `encoder.placed.module` is its torch module. Where the
        other library cannot give the same vectors, it raises `ModelError`: which part, why, and what to take
        instead.
        """


class Importer(Component, Protocol):
    """What another library wrote -> an encoder. Its fields are options of `sentbed import --set`.

    `recognises` is asked of an importer without options: one with a required field must be named (`--from`).
    """

    def recognises(self, source: Path) -> bool:
        """Whether `source` looks like what this class reads; nothing heavy is loaded."""

    def read(self, source: Path) -> Encoder:
        """Return the encoder, on the runtime `cpu`, with the weights that `source` has.

        Raises `ModelError`: what `source` holds that an encoder cannot have, and what to do.
        """


class Optimizer(Component, Protocol):
    """Gradients -> new weights.

    It may also have `build_optax(shapes: Mapping[str, tuple[int, ...]]) -> optax.GradientTransformation`, its
    twin for engines on JAX, over parameters of these names and shapes: gradients -> updates, which the engine
    multiplies by minus the learning rate of the step. Without it, those engines cannot train with it.
    """

    lr: float

    def build(self, parameters: Sequence[tuple[str, Tensor]]) -> Any:
        """Return a `torch.optim.Optimizer` over these named parameters."""


class Schedule(Component, Protocol):
    """Step -> multiplier of the learning rate."""

    def factor(self, step: int, total_steps: int) -> float:
        """The multiplier, in [0, 1], for step `step` (from 0) of `total_steps`."""


class Tracker(Component, Protocol):
    """Follows a run: sends what it shows somewhere else."""

    def build(self) -> object:
        """Return an object that implements lifecycle hooks with `@sentbed.hookimpl`."""


@attrs.frozen
class KnownFile:
    """One file of a known collection of data."""

    path: str
    """Below the collection's directory, with `/`."""
    rows: int | None = None
    """Lines that count as data (without a header); not checked where None."""
    header: bool = False
    """Whether the first line is a header."""
    at_least: bool = False
    """Whether more than `rows` lines are right as well."""
    sha256: tuple[str, ...] = ()
    """The digests of the copies that are known; a file with another one is used, and said to be unknown. What
    comes from `url` must have one of them."""
    url: str | None = None
    """Where `sentbed data get` downloads this file from; None where it comes in one of the archives."""
    others: tuple[str, ...] = ()
    """Further paths where readers find it."""
    optional: bool = False
    """Whether a collection without it is complete: no reader here needs it."""


@attrs.frozen
class KnownArchive:
    """A `.zip` or `.tar` archive, compressed or not, that holds files of a known collection.

    In it they may lie below a directory of its own: the end of their path counts.
    """

    url: str
    holds: str = ""
    """Of its collection it has the files whose paths begin with this."""
    sha256: str | None = None
    """Its digest; not checked where None."""


@attrs.frozen
class KnownMade:
    """Files of a known collection that are made out of others, which are downloaded for it."""

    files: tuple[str, ...]
    """The paths of what is made."""
    sources: tuple[KnownFile, ...]
    """What it is made of; each has a `url`."""
    make: Callable[[Path], Mapping[str, bytes]]
    """From the collection's directory, which has the sources, to the content of each file by its path."""


@attrs.frozen
class KnownData:
    """A collection of data files that an evaluator or a data source reads, and where it comes from."""

    name: str
    """As in `sentbed data get NAME`: `senteval`, `glue`, ..."""
    summary: str
    """One line: what it is, and what reads it."""
    places: tuple[str, ...]
    """Where below `SENTBED_DATA` it may be, the usual place first."""
    files: tuple[KnownFile, ...]
    source: str
    """The page that describes it."""
    archives: tuple[KnownArchive, ...] = ()
    made: tuple[KnownMade, ...] = ()
    licence: str = ""
    """What is known of its terms, in a few words."""
    advice: str = ""
    """How to obtain by hand what cannot be downloaded: a clause without a full stop."""

    def can_download(self, path: str) -> bool:
        """Whether `sentbed data get` has a source for this file of the collection."""
        return (
            any(file.url for file in self.files if file.path == path)
            or any(path.startswith(archive.holds) for archive in self.archives)
            or any(path in made.files for made in self.made)
        )

    @property
    def how_to_get(self) -> str:
        """A clause that says how to obtain the collection, for messages about missing files."""
        if any(self.can_download(file.path) for file in self.files):
            return f"`sentbed data get {self.name}` downloads it"
        return self.advice or f"see {self.source}"


class Runtime(Component, Protocol):
    """Where it runs.

    A runtime that takes several processes may have two further methods, which a run calls before `build`:

    - `processes: int`: of how many processes a run consists; of one where it does not say;
    - `launch(command: Sequence[str]) -> int | None`: where processes are to be started and this is none of
      them, starts each with `command`, waits, and returns the exit code; None where none is to be started;
    - `serve() -> bool`: where this process is one of several and not the first, does what the engine of the
      first one asks until that ends, and returns True. Only the first process runs the recipe and writes.
    """

    def build(self) -> Engine:
        """Claim the device. Raises `RuntimeUnavailableError` where the machine cannot do it."""
