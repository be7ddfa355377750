"""Evaluators, in two halves (texts to encode, scores of their vectors), their results, and vector stores."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import attrs
from attrs.converters import optional

from sentbed.errors import RunError, printable
from sentbed.protocols.components import (
    AnyEncoder,
    Backbone,
    BuiltBackbone,
    Component,
    Pooler,
    Similarity,
    inner_parts,
)
from sentbed.protocols.engine import Head, PlacedEncoder
from sentbed.protocols.items import Items
from sentbed.protocols.tokens import RaggedVectors
from sentbed.protocols.traits import EvaluatorTraits, Output

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Direction: TypeAlias = Literal["higher", "lower", "none"]
"""Whether higher or lower scores are better."""

PartProgress: TypeAlias = Callable[[str, int, int], None]
"""Callback for progress: the part of an evaluation, the amount done and the total."""


@attrs.frozen
class TextTask:
    """Task for which texts are encoded; an encoder may have a prompt for it, as instruct models do."""

    name: str = ""
    """Name of the task, such as `SciFact`; empty if the evaluator has only one."""
    type: str = ""
    """Type of the task, such as `Retrieval`; empty for the evaluator's name."""
    side: Literal["", "query", "document"] = ""
    """Whether the texts are queries or documents; empty if the task does not distinguish them."""
    instruction: str = ""
    """Instruction for the task, such as `Given a claim, find documents that support it`."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of a prompt for these texts in lower case, the most specific one first, in MTEB's order."""
        keys = []
        for part in (self.name, self.type):
            if part and self.side:
                keys.append(f"{part}-{self.side}")
            if part:
                keys.append(part)
        if self.side:
            keys.append(self.side)
        return tuple(key.lower() for key in keys)


class TextEncoder(ABC):
    """Encoder as evaluations use it."""

    __slots__ = ()

    backbone: BuiltBackbone | None = None
    """Tokenizer and transformer, if it is one of sentbed's encoders."""
    output: Output = "vector"
    """Its output for a text. With `tokens`, `encode_tokens` is called instead of `encode`."""
    similarity: Similarity | None = None
    """Similarity for comparing its texts; None for the cosine."""

    @property
    def second(self) -> TextEncoder | None:
        """Encoder of the second sentence of each pair, such as the tower of another language, or None.

        Only for an evaluator with the trait `two_sided`.
        """
        return None

    @property
    def device(self) -> str:
        """torch device for evaluators that train a classifier: `cpu`, `cuda:0`."""
        return "cpu"

    @property
    def machine(self) -> Mapping[str, Any]:
        """Description of the engine: device, threads, precision."""
        return {"device": self.device}

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text, `(n, width)`, in order."""

    def encode_tokens(self, texts: Sequence[str]) -> RaggedVectors:
        """Return the token vectors of each text, in order; for `output == "tokens"`."""
        raise NotImplementedError

    def progress(self, what: str, done: int, total: int) -> None:
        """Report the progress of a part of the evaluation; `encode` reports its own progress."""
        return

    def for_task(self, task: TextTask) -> TextEncoder:
        """Return the encoder with its prompt for a task's texts; by default the encoder itself."""
        return self

    def at_length(self, max_length: int) -> TextEncoder | None:
        """Return the encoder with texts cut to `max_length` tokens, including special tokens.

        That encoder uses no vector store and reports no progress, so that it can be timed. Return None if the
        encoder has no maximum length.
        """
        return None

    def through(
        self, wrap: Callable[[PlacedEncoder], PlacedEncoder]
    ) -> TextEncoder | None:
        """Return the encoder with its placed encoder replaced by `wrap(placed)`, to count or time its batches.

        That encoder uses no vector store and reports no progress. Return None if there is no placed encoder.
        """
        return None


def score_digits(values: Iterable[float]) -> int:
    """Return the number of decimals to print: 2 for scores on a scale of 100, 3 if all are below 10."""
    largest = max(map(abs, filter(math.isfinite, values)), default=100.0)
    return 2 if largest >= 10 else 3


@attrs.frozen
class Score:
    """A score and how it was obtained."""

    task: str = attrs.field(converter=printable)
    metric: str = attrs.field(converter=printable)
    value: float
    """Value on the papers' scale: correlations and accuracies x 100."""
    protocol: Mapping[str, Any]
    """All settings that affect comparability. An evaluator gives its own part: id, aggregation, split, text
    rules, data hash; a mean over tasks lists them in `of`. The runner turns that into
    `{"encoder": how texts are encoded, "evaluator": that part}`."""
    encoder: str = ""
    """Name of the encoder, set by the runner."""
    evaluator: str = ""
    """Name of the evaluator, set by the runner together with the encoder's part of the protocol."""
    items: Items | None = attrs.field(default=None, eq=False, repr=False)
    """Items from which it was computed; None if it cannot be resampled."""
    plugin: str = ""
    """Distribution and version of the evaluator, set by the runner; not part of the protocol."""
    direction: Direction = "higher"
    """Whether higher or lower is better, for marks and ranks; with `none` nothing is marked."""
    note: str = ""
    """Remark on the result, such as why it is 0; not part of the protocol."""
    degenerate: str = ""
    """Why it says nothing about the encoder, such as constant predictions; tables then do not mark it."""
    skipped: tuple[str, ...] = ()
    """Tasks of its row that were left out for want of data, so that a mean over the row covers only a part."""
    axis: Literal["", "x", "y", "cost"] = ""
    """Axis of this score if the report plots two scores of a task and protocol against each other, such as
    alignment over uniformity; `cost` for a cost of the encoder, against which a study plots other scores."""
    transform: Mapping[str, Any] = attrs.field(factory=dict)
    """Transformation of the vectors before scoring, such as whitening; the runner adds it to the encoder's part
    of the protocol."""

    @property
    def evaluator_protocol(self) -> Mapping[str, Any]:
        """The evaluator's part of the protocol, also before the runner has added the encoder's."""
        return self.protocol["evaluator"] if self.evaluator else self.protocol

    @property
    def protocol_id(self) -> str:
        """Id of the evaluator's protocol; empty if it has none."""
        return str(self.evaluator_protocol.get("id", ""))

    @property
    def protocol_name(self) -> str:
        """Short name of the protocol for tables: its id and the aggregation of subsets."""
        protocol = self.evaluator_protocol
        return " ".join(
            str(protocol[key]) for key in ("id", "aggregation") if key in protocol
        )


@attrs.frozen(eq=False)
class Scatter:
    """Points for a scatter plot in the report, such as gold score against cosine."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    y: Sequence[float]


@attrs.frozen(eq=False)
class Evaluation:
    """Result of an evaluator."""

    scores: tuple[Score, ...]
    primary: float
    """Score by which validation ranks checkpoints; higher is better."""
    scatters: tuple[Scatter, ...] = ()


def _ignore_progress(what: str, done: int, total: int) -> None:
    """Do nothing."""


@attrs.frozen(eq=False)
class Texts:
    """List of texts encoded in one pass.

    The last bits of a vector depend on the texts it is encoded with, so the list affects the score's bits.
    """

    first: Sequence[str] = ()
    second: Sequence[str] = ()
    """Second sentences of pairs, for a `two_sided` evaluator. A second encoder, if there is one, encodes them
    separately; otherwise one pass encodes `first`, then `second`."""
    task: TextTask = TextTask()
    """Task for which they are encoded, such as the queries of a retrieval task."""

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    @property
    def both(self) -> list[str]:
        """Texts of the first side, then of the second."""
        return [*self.first, *self.second]


@attrs.frozen(eq=False)
class _OnlyEncodes(TextEncoder):
    encoder: Any

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = self.encoder.encode(texts)
        return vectors


def text_encoder(encoder: TextEncoder | Any) -> TextEncoder:
    """Return an encoder, or anything with `encode(texts)`, as a text encoder.

    A `sentbed.Encoder` keeps its similarity, its output and its prompts of tasks.
    """
    if isinstance(encoder, TextEncoder):
        return encoder
    if hasattr(encoder, "as_text_encoder"):
        evaluated: TextEncoder = encoder.as_text_encoder()
        return evaluated
    return _OnlyEncodes(encoder)


@attrs.frozen(eq=False)
class Vectors:
    """Mapping from the names of prepared lists to their vectors.

    A list is encoded on each access, and its vectors are not kept: an evaluator that finishes one list before
    accessing the next needs memory for only one.
    """

    lists: Mapping[str, Texts]
    encoder: TextEncoder = attrs.field(converter=text_encoder)
    second: TextEncoder | None = attrs.field(
        default=None, converter=optional(text_encoder)
    )
    """Encoder of the second side; None means `encoder`."""
    device: str = "cpu"
    """torch device for evaluators that train a classifier: `cpu`, `cuda:0`."""
    progress: PartProgress = _ignore_progress
    """Callback for the progress of a part of the evaluation; encoding reports its own progress."""

    @property
    def output(self) -> Output:
        """The encoder's output for a text. With `tokens`, use `tokens(name)` for the vectors."""
        return self.encoder.output

    @property
    def similarity(self) -> Similarity | None:
        """Similarity for comparing the encoder's texts; None for the cosine."""
        return self.encoder.similarity

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        """Return one vector per text of a list, float32 `(texts, width)`: first side, then second.

        Raises `RunError` if two encoders give vectors of different widths.
        """
        import numpy as np

        parts = [encoder.encode(texts) for encoder, texts in self._passes(name)]
        _require_equal_widths([np.shape(part)[-1] for part in parts])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def tokens(self, name: str) -> RaggedVectors:
        """Return the token vectors of each text of a list: first side, then second.

        Raises `RunError` if two encoders give vectors of different widths.
        """
        parts = [encoder.encode_tokens(texts) for encoder, texts in self._passes(name)]
        _require_equal_widths([part.width for part in parts])
        return RaggedVectors.join(parts)

    def _passes(self, name: str) -> Iterator[tuple[TextEncoder, list[str]]]:
        """Yield each encoder of a list with its texts."""
        texts = self.lists[name]
        if self.second is None:
            yield self.encoder.for_task(texts.task), texts.both
            return
        if texts.first or not texts.second:
            yield self.encoder.for_task(texts.task), list(texts.first)
        if texts.second:
            yield self.second.for_task(texts.task), list(texts.second)


def _require_equal_widths(widths: Sequence[int]) -> None:
    if widths[0] != widths[-1]:
        raise RunError(
            f"the encoder of the first sentences gives vectors of width {widths[0]}, that of the "
            f"second ones of width {widths[-1]}, which cannot be compared; give both heads the "
            "same `projection`"
        )


@attrs.frozen(eq=False)
class Prepared:
    """Prepared evaluation: the lists of texts to encode, and the function that scores their vectors."""

    lists: Mapping[str, Texts]
    """Name -> texts."""
    score: Callable[[Vectors], Evaluation]
    item_texts: Callable[[], Mapping[str, Sequence[tuple[str, ...]]]] = dict
    """Returns `TASK` or `TASK/METRIC` of a score with `Items` -> the texts of each item, in the order of the
    items: the sentence, both sentences of a pair, the query. They serve to find items that an encoder was
    trained on; tasks without an entry are not searched."""

    @property
    def size(self) -> int:
        """Number of texts to encode."""
        return sum(map(len, self.lists.values()))

    def evaluate(
        self,
        encoder: TextEncoder,
        second: TextEncoder | None = None,
        device: str = "cpu",
        progress: PartProgress | None = None,
    ) -> Evaluation:
        """Encode with any text encoders, or anything with `encode(texts)`, and score."""
        return self.score(
            Vectors(self.lists, encoder, second, device, progress or _ignore_progress)
        )


@attrs.frozen(eq=False)
class DrivesEncoder:
    """Prepared evaluation that drives the encoder itself, such as a library's tasks or a timing."""

    drive: Callable[[TextEncoder], Evaluation]
    """Returns the scores of an encoder."""
    texts: Callable[[], Iterable[str]] = tuple
    """Returns texts for training the tokenizer of a random encoder if no stage has texts for it."""

    def evaluate(self, encoder: TextEncoder | Any) -> Evaluation:
        """Return the scores of an encoder, or of anything with `encode(texts)`."""
        return self.drive(text_encoder(encoder))


Preparation: TypeAlias = Prepared | DrivesEncoder
"""Result of `Evaluator.prepare`."""


class Evaluator(Component):
    """Encoder -> named scores, each with its protocol, in two halves.

    `prepare` reads the data and returns the texts to encode, with a function that scores their vectors. The
    first score of a task is the one that papers print; tables list tasks in the order of the scores.
    """

    __slots__ = ()

    task_types: ClassVar[tuple[str, ...]] = ()
    """Values of `TextTask.type` that it uses; empty if it uses only its name."""

    @property
    def traits(self) -> EvaluatorTraits:
        """Whether it may select checkpoints and prompts, and other capabilities.

        By default those of its inner evaluators; likewise `misfits` and `files`.
        """
        return EvaluatorTraits.of(*inner_parts(self, Evaluator))

    def misfits(self, backbone: Backbone, pooler: Pooler, head: Head) -> Iterator[str]:
        """Yield reasons why it cannot score an encoder of these parts, each with a remedy."""
        for inner in inner_parts(self, Evaluator):
            yield from inner.misfits(backbone, pooler, head)

    def similarity_misfits(self, similarity: Similarity) -> Iterator[str]:
        """Yield reasons why it cannot score an encoder with this similarity, each with a remedy."""
        return iter(())

    @abstractmethod
    def prepare(self) -> Prepared | DrivesEncoder:
        """Read all data. Raises `DataError` with file and line.

        A run prepares each evaluator once, before anything is built. An evaluator that must drive the
        encoder itself, such as a library's, returns `DrivesEncoder`.
        """

    def files(self) -> Iterable[Path]:
        """Return files and directories that it reads but no field names; a study hashes them."""
        for inner in inner_parts(self, Evaluator):
            yield from inner.files()


class VectorStore(ABC):
    """Cache of vectors for later evaluations; it never changes a bit of them."""

    taken: int
    """Number of distinct texts whose vectors were in the cache."""
    encoded: int
    """Number of distinct texts that had to be encoded."""

    @abstractmethod
    def space(self, encoder: AnyEncoder) -> Any:
        """Return the key of an encoder: all that determines its vectors besides the texts.

        Called once per evaluation.
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
        """Return the vectors of `texts`, bit-identical to `encode(texts)`, float32 `(len(texts), width)`.

        `space` is the result of the method `space` for the encoder. For texts that it does not pass to
        `encode`, the store calls `progress` with the number of texts finished since the last call.
        """
