"""Base classes of evaluators, encoders for evaluations and vector stores; scores and other results.

An evaluator works in two halves: it prepares lists of texts to encode, then computes scores from their vectors.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from sentbed.errors import RunError
from sentbed.protocols.components import (
    AnyEncoder,
    Component,
    Output,
    Similarity,
    inner_parts,
    of_inner,
)
from sentbed.protocols.items import Items

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Direction: TypeAlias = Literal["higher", "lower", "none"]
"""Whether higher or lower scores are better."""

PartProgress: TypeAlias = Callable[[str, int, int], None]
"""Function to call with the progress of an evaluation: the part of the evaluation, the amount done, the total."""


@attrs.frozen
class TextTask:
    """Task for which texts are encoded. An encoder may have a prompt for it, as instruction-tuned models do."""

    name: str = ""
    """Name of the task, such as `SciFact`; empty if the evaluator has only one task."""
    type: str = ""
    """Type of the task, such as `Retrieval`; empty means the evaluator's name."""
    side: Literal["", "query", "document"] = ""
    """Whether the texts are queries or documents; empty if the task does not distinguish them."""
    instruction: str = ""
    """Instruction for the task, such as `Given a claim, find documents that support it`."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys under which an encoder may have a prompt for these texts, in lower case.

        The most specific key comes first, as in MTEB: `scifact-query`, `scifact`, `retrieval-query`, `retrieval`,
        `query`.
        """
        keys = []
        for part in (self.name, self.type):
            if part and self.side:
                keys.append(f"{part}-{self.side}")
            if part:
                keys.append(part)
        if self.side:
            keys.append(self.side)
        return tuple(key.lower() for key in keys)


ANY_TASK = TextTask()
"""Task of texts of which nothing is known."""

Encoded: TypeAlias = Any
"""Vectors of texts: float32 `(n, width)`.

If the encoder's `output` is `tokens`, a list with the vectors of each text, `(tokens, width)`.
"""


class TextEncoder(ABC):
    """Computes the vectors of texts: a `sentbed.Encoder`, or an object that wraps one."""

    __slots__ = ()

    output: Output = "vector"
    """What `encode` computes for a text."""
    similarity: Similarity | None = None
    """Similarity for comparing the encoder's texts; None for the cosine."""

    @property
    def device(self) -> str:
        """torch device for evaluators that train a classifier: `cpu`, `cuda:0`."""
        return "cpu"

    @property
    def machine(self) -> Mapping[str, Any]:
        """Description of the engine: device, threads, precision."""
        return {"device": self.device}

    @abstractmethod
    def encode(self, texts: Sequence[str], task: TextTask = ANY_TASK) -> Encoded:
        """Return one vector per text, float32 `(n, width)`, in the order of the texts.

        If `output` is `tokens`, return a list of each text's token vectors, `(tokens, width)`. The texts get the
        prompt that the encoder has for the task.
        """

    def prompt_for(self, task: TextTask) -> object:
        """Return the prompt that the texts of a task get. Texts with equal prompts can be encoded together."""
        return None

    def progress(self, what: str, done: int, total: int) -> None:
        """Report the progress of a part of the evaluation other than encoding, which `encode` reports itself."""
        return

    @property
    def unwrapped(self) -> AnyEncoder:
        """The `sentbed.Encoder` itself, which can be timed: it uses no vector store and reports no progress.

        Raises:
            RunError: if there is none.
        """
        raise RunError(
            "this encoder computes vectors in its own way, and cannot be measured; measure an encoder of a recipe"
        )


def score_digits(values: Iterable[float]) -> int:
    """Return the number of decimals with which to print scores: 2, or 3 if all of them are below 10."""
    sizes = [abs(value) for value in values if math.isfinite(value)]
    return 2 if max(sizes, default=100.0) >= 10 else 3


def score_text(value: float, digits: int = 2) -> str:
    """Return a score with `digits` decimals; NaN is `undefined`, such as a correlation with a constant."""
    if math.isnan(value):
        return "undefined"
    return f"{value:.{digits}f}"


@attrs.frozen
class Score:
    """A score, and how it was computed."""

    task: str
    metric: str
    value: float
    """Value on the scale of papers: correlations and accuracies are multiplied by 100.

    It is NaN if it is undefined, such as the correlation with a constant; `degenerate` then says why.
    """

    protocol: Mapping[str, Any]
    """All settings that decide whether two scores can be compared.

    An evaluator sets its part of them: id, aggregation, split, text rules, hash of the data. A mean over tasks
    lists the tasks in `of`. The runner then sets `protocol` to `{"encoder": ..., "evaluator": ...}`, where
    `encoder` says how the texts were encoded, and `evaluator` is the part that the evaluator has set.
    """

    encoder: str = ""
    """Name of the encoder. The runner sets it."""
    evaluator: str = ""
    """Name of the evaluator. The runner sets it when it adds the encoder's part to `protocol`."""
    items: Items | None = attrs.field(
        default=None,
        eq=False,
        repr=False,
    )
    """Items from which the score was computed; None if it has no confidence interval."""
    plugin: str = ""
    """Distribution and version of the evaluator. The runner sets it; it is not part of the protocol."""

    direction: Direction = "higher"
    """Whether higher or lower scores are better; tables mark the best score. With `none`, nothing is marked."""
    note: str = ""
    """Remark on the score, such as why it is 0; it is not part of the protocol."""
    degenerate: str = ""
    """Why the score says nothing about the encoder, such as constant predictions.

    Tables do not mark such a score.
    """
    skipped: tuple[str, ...] = ()
    """Tasks of the same table row that were left out because their data is missing.

    A mean over the row covers only the other tasks.
    """
    axis: Literal["", "x", "y", "cost"] = ""
    """Axis of the score, if the report plots two scores of a task and protocol against each other.

    An example is alignment over uniformity. `cost` is for a cost of the encoder, over which a study plots other
    scores.
    """

    @property
    def evaluator_protocol(self) -> Mapping[str, Any]:
        """The evaluator's part of the protocol."""
        if not self.evaluator:
            # The runner has not added the encoder's part yet.
            return self.protocol
        protocol: Mapping[str, Any] = self.protocol["evaluator"]
        return protocol

    @property
    def protocol_id(self) -> str:
        """Id of the evaluator's protocol; empty if the protocol has no id."""
        return str(self.evaluator_protocol.get("id", ""))

    @property
    def protocol_name(self) -> str:
        """Short name of the evaluator's protocol for tables: its id, and how subsets are aggregated."""
        protocol = self.evaluator_protocol
        names = [str(protocol[key]) for key in ("id", "aggregation") if key in protocol]
        return " ".join(names)


@attrs.frozen(eq=False)
class Evaluation:
    """Result of an evaluator."""

    scores: tuple[Score, ...]
    primary: float
    """Number by which validation chooses the best weights; higher is better. NaN is never the best."""


@attrs.frozen(eq=False)
class Texts:
    """A list of texts that are encoded together.

    The last bits of a vector depend on the other texts in its batch, so the list affects the last bits of a
    score.
    """

    first: Sequence[str] = ()
    second: Sequence[str] = ()
    """Second sentences of pairs, for an evaluator that is `two_sided`.

    If there is a second encoder, it encodes these texts. Otherwise, the encoder encodes `first` and `second` as
    one list.
    """
    task: TextTask = TextTask()
    """Task for which the texts are encoded, such as the queries of a retrieval task."""

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    @property
    def both(self) -> list[str]:
        """The first sentences, then the second sentences."""
        return [*self.first, *self.second]


@attrs.frozen(eq=False)
class Vectors:
    """The vectors of prepared lists of texts, by the name of the list: `vectors["queries"]`.

    A list is encoded each time it is accessed, and its vectors are not stored here. So an evaluator that
    finishes one list before it accesses the next needs memory for only one list.
    """

    lists: Mapping[str, Texts]
    encoder: TextEncoder
    second: TextEncoder | None = None
    """Encoder of the second sentences of pairs; None means `encoder`."""

    @property
    def device(self) -> str:
        """torch device for evaluators that train a classifier: `cpu`, `cuda:0`."""
        return self.encoder.device

    @property
    def output(self) -> Output:
        """What the encoder computes for a text."""
        return self.encoder.output

    @property
    def similarity(self) -> Similarity | None:
        """Similarity for comparing the encoder's texts; None for the cosine."""
        return self.encoder.similarity

    def progress(self, what: str, done: int, total: int) -> None:
        """Report the progress of a part of the evaluation other than encoding."""
        self.encoder.progress(what, done, total)

    def __getitem__(self, name: str) -> Encoded:
        """Return the vectors of a list: those of `Texts.first`, then of `Texts.second`.

        They are float32 `(texts, width)`; if `output` is `tokens`, a list of one `(tokens, width)` per text.

        Raises:
            RunError: if the vectors of two encoders have different widths.
        """
        texts = self.lists[name]
        if self.second is None or not texts.second:
            return self.encoder.encode(texts.both, texts.task)
        second = self.second.encode(list(texts.second), texts.task)
        if not texts.first:
            return second
        first = self.encoder.encode(list(texts.first), texts.task)
        return _joined(first, second)


def _joined(first: Encoded, second: Encoded) -> Encoded:
    """Return the vectors of two encoders as one object.

    Raises:
        RunError: if their vectors have different widths.
    """
    import numpy as np

    width, second_width = np.shape(first[0])[-1], np.shape(second[0])[-1]
    if width != second_width:
        raise RunError(
            f"the encoder of the first sentences gives vectors of width {width}, that of the second ones of "
            f"width {second_width}, which cannot be compared; give both heads the same `projection`"
        )
    if isinstance(first, list):
        return [*first, *second]
    return np.concatenate([first, second])


@attrs.frozen(eq=False)
class Prepared:
    """Prepared evaluation: lists of texts to encode, and a function that computes scores from their vectors."""

    lists: Mapping[str, Texts]
    """Lists of texts, by a name that the evaluator chooses."""
    score: Callable[[Vectors], Evaluation]
    item_texts: Callable[[], Mapping[str, Sequence[tuple[str, ...]]]] = dict
    """Returns the texts of each item of a score, by `TASK` or `TASK/METRIC`.

    The items are in the order of the score's `Items`. The texts of an item are its sentence, both sentences of a
    pair, or the query. With them, one can find items on which an encoder was trained; tasks without an entry are
    not searched.
    """
    remarks: tuple[str, ...] = ()
    """What is doubtful about the data, such as a score far from the others; a sentence each, with file and line.

    The run warns of them.
    """

    def evaluate(
        self, encoder: TextEncoder, second: TextEncoder | None = None
    ) -> Evaluation:
        """Encode the lists and return the scores."""
        return self.score(Vectors(self.lists, encoder, second))


@attrs.frozen(eq=False)
class DrivesEncoder:
    """Prepared evaluation that calls the encoder itself, such as a benchmark of another library, or a timing."""

    drive: Callable[[TextEncoder], Evaluation]
    """Returns the scores of an encoder."""
    texts: Callable[[], Iterable[str]] = tuple
    """Returns texts for training the tokenizer of a randomly initialised encoder, used if no training stage has
    texts for it."""

    def evaluate(self, encoder: TextEncoder) -> Evaluation:
        """Return the scores of an encoder."""
        return self.drive(encoder)


Preparation: TypeAlias = Prepared | DrivesEncoder
"""Result of `Evaluator.prepare`."""


class Evaluator(Component):
    """Computes the scores of an encoder, each with its protocol.

    `prepare` reads the data and returns the texts to encode, with a function that computes scores from their
    vectors. The first score of each task is the one that papers print. Tables list the tasks in the order of the
    scores.
    """

    __slots__ = ()

    @of_inner
    def development(self) -> bool:
        """Whether the evaluator uses only development or training data.

        Only such an evaluator may choose the best weights (`validate`).
        """
        return False

    @of_inner
    def two_sided(self) -> bool:
        """Whether another encoder may encode the second sentences of pairs."""
        return False

    @of_inner
    def reads(self) -> frozenset[Output]:
        """Outputs of poolers (`Pooler.output`) that the evaluator can score.

        For `tokens`, `Vectors` gives one array per text; see `Encoded`.
        """
        return frozenset({"vector"})

    @abstractmethod
    def prepare(self) -> Prepared | DrivesEncoder:
        """Read all data, and return the prepared evaluation.

        A run prepares each evaluator once, before anything is built. An evaluator that must call the encoder
        itself, such as a benchmark of another library, returns `DrivesEncoder`.

        Raises:
            DataError: if the data cannot be used. The message has the file and the line.
        """

    def files(self) -> Iterable[Path]:
        """Return the files and directories that the evaluator reads although no field names them.

        A study hashes them, and a run compares them with the data that it trains on. By default, return those of
        the inner evaluators.
        """
        for inner in inner_parts(self, Evaluator):
            yield from inner.files()

    def development_files(self) -> Iterable[Path]:
        """Return those of the files that have no test data, such as the training sets of tasks.

        They need not be returned if the evaluator is for `development`. By default, return those of the inner
        evaluators.
        """
        for inner in inner_parts(self, Evaluator):
            yield from inner.development_files()


class VectorStore(ABC):
    """Stores vectors for later evaluations. Stored vectors are bit-identical to computed vectors."""

    taken: int
    """Number of distinct texts whose vectors were in the store."""
    encoded: int
    """Number of distinct texts that had to be encoded."""

    @abstractmethod
    def space(self, encoder: AnyEncoder) -> Any:
        """Return the key under which the vectors of an encoder are stored.

        It identifies everything that determines a vector, except the text. Called once per evaluation.
        """

    @abstractmethod
    def encode(
        self,
        space: Any,
        texts: Sequence[str],
        encode: Callable[[Sequence[str]], NDArray[np.float32]],
        width: int,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Return the vectors of texts, float32 `(len(texts), width)`, bit-identical to `encode(texts)`.

        Args:
            space: The result of the method `space` for the encoder.
            texts: The texts.
            encode: Computes the vectors of texts that are not in the store.
            width: Dimension of a vector.
            progress: Called with the number of texts whose vectors were in the store, since the last call.
        """
