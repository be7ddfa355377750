"""Components: the base classes of what plugins offer, and of what they build.

A component is a frozen attrs class that inherits from the base class of its kind. Its fields are its recipe
parameters, its `traits` say what it can do beside them. Methods that are not abstract have a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import attrs

from sentbed.protocols.planning import Outline, OutlineContext
from sentbed.protocols.tokens import Module, Tensor, Tokenizer
from sentbed.protocols.traits import (
    BackboneTraits,
    ComponentTraits,
    DataTraits,
    LossTraits,
    PoolerTraits,
)


class Component(ABC):
    """What every component has; its fields are its recipe parameters."""

    __slots__ = ()

    name: ClassVar[str]
    """The name that a recipe uses."""

    @property
    def traits(self) -> ComponentTraits:
        """What it can do beside its fields."""
        return ComponentTraits()

    def check(self) -> Iterator[str]:
        """Yield problems that can be seen without a heavy import, for `sentbed check`.

        Such as a file that does not exist, or parameters that exclude each other: each a sentence that ends
        in what to do.
        """
        return iter(())


@attrs.frozen
class BuildContext:
    """What a backbone may need to be built."""

    texts: Callable[[], Iterable[str]]
    """The texts that the recipe's stages give this encoder, to train a tokenizer; read only when called."""
    saved: Path | None = None
    """A directory that `BuiltBackbone.save` wrote; where given, weights and tokenizer come from here."""
    needs: frozenset[str] = frozenset()
    """What the pooler needs (see `Pooler`): `TokenStates` must have it, nothing else is to be computed."""


class BuiltBackbone:
    """A tokenizer and a transformer, on the host."""

    tokenizer: Tokenizer
    """Text -> token ids."""
    module: Module
    """`module(input_ids, attention_mask | None) -> TokenStates`."""
    width: int
    """Width of a token state."""
    max_length: int
    """The longest input in tokens that the positions allow."""
    origin: Mapping[str, Any]
    """Where the weights came from, with their hash, for the manifest."""
    shares_prefix: bool = False
    """Whether `inference(...)(input_ids, attention_mask, prefix)` takes ids `(shared,)` that stand before
    every row; `TokenStates` and its mask then include them."""
    dispatched: bool = False
    """Whether its weights are on their devices already."""

    @property
    def protocol(self) -> Mapping[str, Any]:
        """What every score is to say of it, such as the layers that it reads."""
        return {}

    def inference(self, module: Module, dtype: Any, traceable: bool = False) -> Module:
        """Return a copy of `module` for encoding: no gradient, eval mode, weights in `dtype`.

        `traceable`: only of operations that a compiler knows.
        """
        raise NotImplementedError

    def save(self, directory: Path) -> None:
        """Write weights (safetensors), configuration and tokenizer into `directory`, which it makes."""
        raise NotImplementedError

    def merged(self) -> tuple[Backbone, BuiltBackbone] | None:
        """Return its component and itself without adapters, for `Encoder.export`; None where it has none."""
        return None


class Backbone(Component):
    """Tokenizer + transformer: text -> token states."""

    __slots__ = ()

    @property
    def traits(self) -> BackboneTraits:
        """What it offers to poolers, and more."""
        return BackboneTraits()

    @abstractmethod
    def build(self, context: BuildContext) -> BuiltBackbone:
        """Load or initialise. The first heavy import happens here."""

    def misfits(self, needs: frozenset[str]) -> Iterator[str]:
        """Yield what of its fields cannot work with what a pooler needs."""
        return iter(())

    def outline(self, context: OutlineContext) -> Outline | None:
        """Return what its configuration says, for `sentbed plan`; None where it cannot tell.

        Raises a `SentbedError` that says why it cannot be known here.
        """
        return None


class Pooler(Component):
    """Token states -> one vector a sentence."""

    __slots__ = ()

    @property
    def traits(self) -> PoolerTraits:
        """What it needs of the backbone and the prompt, and more."""
        return PoolerTraits()

    @abstractmethod
    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, output_width(width))`."""

    def output_width(self, width: int) -> int:
        """Return the width of a sentence vector, given that of a token state."""
        return width


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
"""The column of a data source that holds the name of a class, not a text; see `LossTraits.classes`."""


class Loss(Component):
    """Sentence vectors -> a scalar to minimise."""

    __slots__ = ()

    @property
    @abstractmethod
    def traits(self) -> LossTraits:
        """The columns that it needs, and more."""

    @abstractmethod
    def build(self, width: int) -> Module:
        """Return `module(inputs: Mapping[str, Tensor]) -> LossOutput`.

        `inputs` has the fp32 vectors `(batch, width)` of each column by its name, and `label` `(batch,)`, the
        numbers of the classes. The module is a pure function of its arguments and its parameters: nothing is
        kept between calls, gradients are stopped with `.detach()`.

        Where the traits say `stateful`, it has `initial_state() -> dict[str, Tensor]` and is called as
        `module(inputs, state)`: what its output has as `state` is given to the next step, and is saved with
        every checkpoint.
        """

    def misfits(self, batch_size: int, fixed: frozenset[str]) -> Iterator[str]:
        """Yield what of its fields cannot work with batches of so many rows.

        The columns `fixed` come from a tower that the stage does not train.
        """
        return iter(())

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int | None:
        """Return the most negatives that an anchor sees in a full batch of data with these columns.

        0 where the loss compares no anchors, None where it cannot tell.
        """
        return None


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


class Dataset(ABC):
    """Rows of named text columns, addressed by number."""

    __slots__ = ()

    mixture: Mixture | None = None
    """How to draw from it, where it is made of parts."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Of `anchor`, `positive`, `negative`, `label`, ..."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of the content, for the manifest, and of everything that decides what `rows` returns."""

    @property
    def varies(self) -> bool:
        """Whether its texts change from pass to pass."""
        return False

    @property
    def left_out(self) -> Mapping[str, int]:
        """What it does not give, and how often, for the manifest."""
        return {}

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def rows(self, indices: Sequence[int], epoch: int = 0) -> Mapping[str, Sequence[str]]:
        """The texts of these rows, by column.

        `epoch` counts the passes over the data from 0, for a source that changes its texts from pass to pass;
        the same arguments always give the same texts.
        """

    @abstractmethod
    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Every text of these columns once through, for a tokenizer to be trained on; None: of all."""


class DataSource(Component):
    """Where training texts come from."""

    __slots__ = ()

    @property
    def traits(self) -> DataTraits:
        """Whether it fetches, and more."""
        return DataTraits()

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that `open()` will give; known without reading the data."""

    @abstractmethod
    def open(self) -> Dataset:
        """Read, or prepare to read. Raises `DataError` that names file and line."""

    def files(self) -> Iterable[Path]:
        """Return files and directories that it reads and no field of it names: a study hashes them."""
        return ()


AnyEncoder: TypeAlias = Any
"""A `sentbed.Encoder`, which core builds from these protocols."""


class Exporter(Component):
    """An encoder -> files that another library reads. Its fields are options of `sentbed export --set`."""

    __slots__ = ()

    @abstractmethod
    def write(self, encoder: AnyEncoder, directory: Path) -> Iterable[str] | None:
        """Write into `directory`, which is empty; it appears when all is written.

        It may return what users should know, such as which texts get other vectors: a sentence each.

        The encoder is on the runtime `cpu`, in fp32; `encoder.placed.module` is its torch module. Where the
        other library cannot give the same vectors, it raises `ModelError`: which part, why, and what to take
        instead.
        """


class Importer(Component):
    """What another library wrote -> an encoder. Its fields are options of `sentbed import --set`.

    `recognises` is asked of an importer without options: one with a required field must be named (`--from`).
    """

    __slots__ = ()

    @abstractmethod
    def recognises(self, source: Path) -> bool:
        """Whether `source` looks like what this class reads; nothing heavy is loaded."""

    @abstractmethod
    def read(self, source: Path) -> AnyEncoder:
        """Return the encoder, on the runtime `cpu`, with the weights that `source` has.

        Raises `ModelError`: what `source` holds that an encoder cannot have, and what to do.
        """


class Optimizer(Component):
    """Gradients -> new weights."""

    __slots__ = ()

    @property
    @abstractmethod
    def lr(self) -> float:
        """The learning rate, a field."""

    @abstractmethod
    def build(self, parameters: Sequence[tuple[str, Tensor]]) -> Any:
        """Return a `torch.optim.Optimizer` over these named parameters."""

    def build_optax(self, shapes: Mapping[str, tuple[int, ...]]) -> Any:
        """Return its twin for engines on JAX, an `optax.GradientTransformation`; None where it has none.

        It is over parameters of these names and shapes, and gives updates, which the engine multiplies by
        minus the learning rate of the step.
        """
        return None

    def state_bytes(self, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        """Return the bytes of its state over fp32 parameters of these names and shapes; None: unknown."""
        return None


class Schedule(Component):
    """Step -> multiplier of the learning rate."""

    __slots__ = ()

    @abstractmethod
    def factor(self, step: int, total_steps: int) -> float:
        """The multiplier, in [0, 1], for step `step` (from 0) of `total_steps`."""


class Tracker(Component):
    """Follows a run: sends what it shows somewhere else."""

    __slots__ = ()

    @abstractmethod
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
