"""The two halves of an evaluator: what is to be encoded, and the scores of its vectors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from sentbed.errors import RunError
from sentbed.protocols.components import Component
from sentbed.protocols.traits import EvaluatorTraits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Direction: TypeAlias = Literal["higher", "lower", "none"]
"""Which way a score is better."""

PartProgress: TypeAlias = Callable[[str, int, int], None]
"""Called with a part of an evaluation, how much of it is done, and of how much."""


class TextEncoder(ABC):
    """What encodes the texts of an evaluation that drives the encoder itself (`DrivesEncoder`)."""

    __slots__ = ()

    @property
    def second(self) -> TextEncoder | None:
        """What encodes the second sentence of each pair, the tower of another language.

        Only for an evaluator whose traits say `two_sided`; None where there is none.
        """
        return None

    @property
    def device(self) -> str:
        """Where an evaluator that trains a classifier computes, in torch's words: `cpu`, `cuda:0`."""
        return "cpu"

    @property
    def machine(self) -> Mapping[str, Any]:
        """What the engine says of itself: device, threads, precision."""
        return {"device": self.device}

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, `(n, width)`, in the order given."""

    def progress(self, what: str, done: int, total: int) -> None:
        """To be called with how far a part of the evaluation is (`encode` reports itself)."""
        return

    def at_length(self, max_length: int) -> TextEncoder | None:
        """Return the same encoder as it cuts texts at so many tokens, special tokens included.

        It computes every vector that it is asked for, and reports nothing: it can be timed. None where the
        encoder has no such thing as a length.
        """
        return None


def score_digits(values: Iterable[float]) -> int:
    """Return decimals to print: two on the papers' scale of 100, three for small ones such as alignment."""
    return 2 if max((abs(value) for value in values if math.isfinite(value)), default=100.0) >= 10 else 3


@attrs.frozen(eq=False)
class Items:
    """What a score was computed from, item by item, so that it can be resampled.

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


def _untold(what: str, done: int, total: int) -> None:
    """Tell nobody."""


@attrs.frozen(eq=False)
class Texts:
    """A list of texts that is encoded in one pass.

    In its last bits a vector depends on the texts beside it: the list decides the score to the bit.
    """

    first: Sequence[str] = ()
    second: Sequence[str] = ()
    """The second sentences of pairs, for an evaluator that is `two_sided`. A second encoder, if there is one,
    encodes these apart; else one pass encodes both sides, these last."""

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    @property
    def both(self) -> list[str]:
        """The texts of the first side, then those of the second."""
        return [*self.first, *self.second]


@attrs.frozen(eq=False)
class Vectors:
    """The vectors of the lists that were prepared, each by the name of its list.

    A list is encoded when its vectors are asked for, and they are not kept here: an evaluator that has done
    with one list before it asks for the next needs memory for one.
    """

    lists: Mapping[str, Texts]
    encoder: TextEncoder
    second: TextEncoder | None = None
    """What encodes the second side; the same encoder where None."""
    device: str = "cpu"
    """Where an evaluator that trains a classifier computes, in torch's words (`cpu`, `cuda:0`)."""
    progress: PartProgress = _untold
    """To be called with how far a part of the evaluation is; encoding reports itself."""

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        """Return one row a text of a list, float32 `(texts, width)`: the first side's, then the second's.

        Raises `RunError` where two encoders give vectors of different widths.
        """
        import numpy as np

        texts = self.lists[name]
        if self.second is None:
            return self.encoder.encode(texts.both)
        if not texts.second:
            return self.encoder.encode(list(texts.first))
        if not texts.first:
            return self.second.encode(list(texts.second))
        sides = self.encoder.encode(list(texts.first)), self.second.encode(list(texts.second))
        one, other = (np.shape(side)[-1] for side in sides)
        if one != other:
            raise RunError(
                f"the encoder of the first sentences gives vectors of width {one}, that of the second ones "
                f"of width {other}, which cannot be compared; give both heads the same `projection`"
            )
        return np.concatenate(sides)


@attrs.frozen(eq=False)
class Prepared:
    """What an evaluator has read: the lists that are to be encoded, and how their vectors are scored."""

    lists: Mapping[str, Texts]
    """Name -> texts."""
    score: Callable[[Vectors], Evaluation]

    @property
    def size(self) -> int:
        """How many texts are to be encoded."""
        return sum(map(len, self.lists.values()))

    def evaluate(
        self,
        encoder: TextEncoder,
        second: TextEncoder | None = None,
        device: str = "cpu",
        progress: PartProgress | None = None,
    ) -> Evaluation:
        """Encode with any text encoder, and score."""
        return self.score(Vectors(self.lists, encoder, second, device, progress or _untold))


@attrs.frozen(eq=False)
class DrivesEncoder:
    """What an evaluator prepares that drives the encoder itself: a library's tasks, or a stopwatch."""

    drive: Callable[[TextEncoder], Evaluation]
    """Returns the scores of an encoder."""
    texts: Callable[[], Iterable[str]] = tuple
    """Texts on which an encoder with random weights may train a tokenizer, where no stage gives it texts."""

    def evaluate(self, encoder: TextEncoder | Any) -> Evaluation:
        """Return the scores of an encoder, or of anything with `encode(texts)`."""
        return self.drive(encoder if isinstance(encoder, TextEncoder) else _OnlyEncodes(encoder))


@attrs.frozen(eq=False)
class _OnlyEncodes(TextEncoder):
    encoder: Any

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = self.encoder.encode(texts)
        return vectors


Preparation: TypeAlias = Prepared | DrivesEncoder
"""What `Evaluator.prepare` returns."""


class Evaluator(Component):
    """Encoder -> named scores, each with its protocol, in two halves.

    `prepare` reads the data and says what is to be encoded; what it returns scores the vectors. The first
    score of a task is the one that papers print; tables have the tasks in the order of the scores.
    """

    __slots__ = ()

    @property
    def traits(self) -> EvaluatorTraits:
        """Whether it may choose, and more."""
        return EvaluatorTraits()

    @abstractmethod
    def prepare(self) -> Prepared | DrivesEncoder:
        """Read all data. Raises `DataError` that names file and line.

        A run prepares each of its evaluators once, before anything is built. An evaluator that must drive
        the encoder itself, as a library does, returns `DrivesEncoder`.
        """

    def files(self) -> Iterable[Path]:
        """Return files and directories that it reads and no field of it names: a study hashes them."""
        return ()
