"""Rules of an evaluator. It evaluates an encoder whose vectors are pseudo-random functions of the texts."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.protocols import (
    ANY_TASK,
    DrivesEncoder,
    Evaluation,
    PlacedEncoder,
    Preparation,
    Prepared,
    Score,
    TextEncoder,
    Texts,
    TextTask,
    TokenBatch,
    Vectors,
)

from sentbed_testing.component_under_test import NotRunError, Subject

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed_testing.conformance import Findings

WIDTH = 16
MAX_AGGREGATES = 20
"""Only scores with at most this many items are tested for items that are aggregates, such as scores of folds."""
CHANGED_TEXTS = 12
"""Approximate number of texts whose vector is changed, one text at a time, to find aggregates."""
MAX_CHANGED_SHARE = 0.5
"""Items count as aggregates if every text whose vector is changed changes more than this share of them."""
ROUNDING = 0.006
"""Largest allowed difference between a score and what its items give, since SentEval rounds to two decimals."""


class LetterEncoder(TextEncoder):
    """Text encoder without weights. The vector of a text is drawn from a seed that is the hash of the text."""

    def __init__(self) -> None:
        self.wrong_argument = ""
        """Type of an argument of `encode` that was not a sequence of strings; empty if all were."""
        self.changed_text: str | None = None
        """Text that has another vector than its hash gives; None if there is no such text."""

    def encode(
        self, texts: Sequence[str], task: TextTask = ANY_TASK
    ) -> NDArray[np.float32]:
        """Return one vector per text."""
        import numpy as np

        if isinstance(texts, str) or not isinstance(texts, Sequence):
            self.wrong_argument = type(texts).__name__
        rows = [self._vector(text) for text in texts]
        return np.array(rows, np.float32).reshape(len(rows), WIDTH)

    def at_length(self, max_length: int) -> LetterEncoder:
        """Return the encoder itself: its vectors do not depend on a maximum length."""
        return self

    def through(self, wrap: Callable[[PlacedEncoder], PlacedEncoder]) -> TextEncoder:
        """Return an encoder that passes the code points of texts as token ids to the wrapped `LetterPlaced`."""
        return _CodePointEncoder(wrap(LetterPlaced(self)))

    def _vector(self, text: str) -> NDArray[Any]:
        import numpy as np

        if not isinstance(text, str):
            self.wrong_argument = f"a list with {type(text).__name__}"
        salt = "another " if text == self.changed_text else ""
        digest = hashlib.sha256(f"{salt}{text}".encode()).digest()
        seed = int.from_bytes(digest[:8], "little")
        return np.random.default_rng(seed).standard_normal(WIDTH)


class LetterPlaced(PlacedEncoder):
    """The part of a `LetterEncoder` that an engine would run. Its token ids are code points of characters."""

    width = WIDTH

    def __init__(self, encoder: LetterEncoder) -> None:
        self.encoder = encoder

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Return the vectors of the texts with these code points; 0 is padding."""
        texts = []
        for row in batch.input_ids.tolist():
            texts.append("".join(map(chr, filter(None, row))))
        return self.encoder.encode(texts)


@attrs.frozen
class _CodePointEncoder(TextEncoder):
    """Text encoder whose token ids are the code points of the characters."""

    placed: PlacedEncoder

    def encode(self, texts: Sequence[str], task: TextTask = ANY_TASK) -> Any:
        import numpy as np

        longest = max(map(len, texts), default=0)
        ids = np.zeros((len(texts), longest), np.int64)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = list(map(ord, text))
        mask = (ids > 0).astype(np.int64)

        (vectors,) = self.placed.encode_batches([TokenBatch(ids, mask)])
        return vectors


def _prepared(subject: Subject) -> Preparation:
    """Return the result of the evaluator's `prepare` that all rules share.

    Raises `NotRunError` if the result is neither `Prepared` nor `DrivesEncoder`.
    """
    if "prepared" not in subject.shared_results:
        subject.shared_results["prepared"] = subject.ready.prepare()
    prepared = subject.shared_results["prepared"]
    if not isinstance(prepared, Prepared | DrivesEncoder):
        raise NotRunError("`prepare` returns something else; see the rule `lists`")
    return prepared


def _first_evaluation(subject: Subject) -> tuple[Evaluation, LetterEncoder]:
    """Return the evaluation that all rules share, and the encoder that was evaluated."""
    prepared = _prepared(subject)
    results = subject.shared_results
    if "evaluation" not in results:
        encoder = LetterEncoder()
        if isinstance(prepared, Prepared):
            results["vectors"] = _RecordingVectors(prepared.lists, encoder)
            results["evaluation"] = prepared.score(results["vectors"]), encoder
        else:
            results["evaluation"] = prepared.evaluate(encoder), encoder

    first: tuple[Evaluation, LetterEncoder] = results["evaluation"]
    return first


def lists(subject: Subject) -> Findings:
    """`prepare` returns the same lists of strings in every call, and the evaluator uses every list."""
    prepared = subject.ready.prepare()
    subject.shared_results.setdefault("prepared", prepared)
    if isinstance(prepared, DrivesEncoder):
        return
    if not isinstance(prepared, Prepared):
        yield (
            f"`prepare` returns {type(prepared).__name__}",
            "return `Prepared`, or `DrivesEncoder` if it must call the encoder itself",
        )
        return

    for name, texts in prepared.lists.items():
        if not isinstance(texts, Texts):
            yield f"the list `{name}` is {type(texts).__name__}", "make it `Texts`"
            return
        wrong = [text for text in texts.both if not isinstance(text, str)]
        if wrong:
            yield f"the list `{name}` has {wrong[0]!r}", "put strings in it"
            return
        if len(texts.second) and not subject.ready.two_sided:
            yield (
                f"the list `{name}` has a second side",
                "say `two_sided = True`, or give a list with one side",
            )

    _first_evaluation(subject)
    unused = prepared.lists.keys() - subject.shared_results["vectors"].read_names
    if unused:
        yield (
            f"the vectors of the list `{min(unused)}` are not used",
            "leave the list out of what `prepare` returns",
        )

    if _texts_of(subject.ready.prepare()) != _texts_of(prepared):
        yield (
            "it prepares other texts the second time",
            "draw from a `seed` that is a field",
        )


def _texts_of(prepared: Any) -> dict[str, list[str]]:
    """Return the texts of each list by the name of the list."""
    return {name: list(texts.both) for name, texts in prepared.lists.items()}


class _RecordingVectors(Vectors):
    """`Vectors` that record which lists an evaluator reads."""

    @cached_property
    def read_names(self) -> set[str]:
        """Names of the lists that were read."""
        return set()

    def __getitem__(self, name: str) -> Any:
        self.read_names.add(name)
        return super().__getitem__(name)


def scores(subject: Subject) -> Findings:
    """Its scores and `primary` are finite, and scores of equal task and metric have different protocols."""
    evaluation, encoder = _first_evaluation(subject)
    if not isinstance(evaluation, Evaluation):
        yield f"its result is {type(evaluation).__name__}", "return an `Evaluation`"
        return
    if not evaluation.scores:
        yield "there are no scores", "return at least one `Score`"
    if not _is_finite(evaluation.primary):
        yield (
            f"`primary` is {evaluation.primary!r}",
            "give the number by which validation compares encoders; higher is better",
        )

    for score in evaluation.scores:
        score_name = f"{score.task}/{score.metric}"
        if not _is_finite(score.value):
            yield (
                f"the score {score_name} is {score.value!r}",
                "give a finite number; multiply shares by 100",
            )

        if not score.protocol.get("id"):
            yield (
                f"the protocol of {score_name} has no `id`",
                "describe in `protocol` how the number was obtained: `id`, `split`, all that comparisons need",
            )

    keys = set(map(_score_key, evaluation.scores))
    if len(keys) < len(evaluation.scores):
        yield (
            "two scores have the same task, metric and protocol",
            "describe in the protocol what differs",
        )

    if encoder.wrong_argument:
        yield f"it encodes {encoder.wrong_argument}", "give `encode` a list of strings"


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, float | int):
        return False
    return math.isfinite(value)


def repeatable(subject: Subject) -> Findings:
    """A second evaluation of the same encoder gives the same scores, also after a second call of `prepare`."""
    evaluation, _ = _first_evaluation(subject)
    first = _numbers(evaluation)
    encoder = LetterEncoder()
    for prepared in (_prepared(subject), subject.ready.prepare()):
        second = _numbers(prepared.evaluate(encoder))
        for key in sorted(first.keys() | second.keys()):
            value, other = first.get(key), second.get(key)
            if value != other:
                yield (
                    f"the score {'/'.join(key[:2])} is {value!r}, and {other!r} the second time",
                    "draw from a `seed` that is a field, and keep nothing between calls",
                )
                return


def _numbers(evaluation: Evaluation) -> dict[tuple[str, ...], float]:
    """Return the values of all scores and `primary`, by key."""
    numbers: dict[tuple[str, ...], float] = {}
    for score in evaluation.scores:
        numbers[_score_key(score)] = score.value
    numbers["", "primary", ""] = evaluation.primary
    return numbers


def _score_key(score: Score) -> tuple[str, str, str]:
    """Return what identifies a score within an evaluation: task, metric and protocol."""
    protocol = repr(sorted(score.protocol.items(), key=str))
    return score.task, score.metric, protocol


def items(subject: Subject) -> Findings:
    """Each score can be computed from its items, and `item_texts` has the encoded texts of each item."""
    from sentbed_common import item_score

    evaluation, _ = _first_evaluation(subject)
    for score in evaluation.scores:
        if score.items is None:
            continue
        recomputed = item_score(score.items)
        if not abs(recomputed - score.value) <= ROUNDING:
            yield (
                f"the score {score.task}/{score.metric} is {score.value!r}, and its items give {recomputed!r}",
                "give the items, the statistic, the groups and the scale that the score was computed with",
            )
        yield from _aggregate_findings(subject, score)
        yield from _item_text_findings(subject, score, len(score.items.x))


def _item_text_findings(
    subject: Subject,
    score: Score,
    count: int,
) -> Findings:
    """Yield a finding if `item_texts` has another number of items than the score, or a text that no list has."""
    prepared = _prepared(subject)
    if not isinstance(prepared, Prepared):
        return
    item_texts = prepared.item_texts()
    texts = item_texts.get(f"{score.task}/{score.metric}", item_texts.get(score.task))
    if texts is None:
        return

    if len(texts) != count:
        yield (
            f"`item_texts` has {len(texts)} items of {score.task}/{score.metric}, and the score has {count}",
            "give the texts of each item, in the order of the items",
        )

    encoded: set[str] = set()
    for encoded_list in prepared.lists.values():
        encoded.update(encoded_list.both)
    for item in texts:
        if not encoded.issuperset(item):
            yield (
                f"`item_texts` has an item of {score.task} with a text that no list has: {item!r:.80}",
                "give a tuple of the texts that are encoded for the item",
            )
            return


def _aggregate_findings(subject: Subject, score: Score) -> Findings:
    """Yield a finding if the items of a score are a few aggregates, such as the scores of folds.

    If the vector of a text changes, only the items with that text change, but every aggregate may change.
    """
    prepared, items = _prepared(subject), score.items
    if items is None or not isinstance(prepared, Prepared):
        return
    if items.statistic != "mean" or len(items.x) > MAX_AGGREGATES:
        return

    texts: list[str] = []
    for name in sorted(prepared.lists):
        texts += dict.fromkeys(prepared.lists[name].both)

    encoder = LetterEncoder()
    changed_shares = []
    step = max(1, len(texts) // CHANGED_TEXTS)
    for text in dict.fromkeys(texts[::step]):
        encoder.changed_text = text
        for other in prepared.evaluate(encoder).scores:
            if _score_key(other) != _score_key(score) or other.items is None:
                continue
            if len(other.items.x) != len(items.x):
                continue
            share = float((other.items.x != items.x).mean())
            if share:
                changed_shares.append(share)

    if changed_shares and min(changed_shares) > MAX_CHANGED_SHARE:
        yield (
            f"the score {score.task}/{score.metric} is the mean of {len(items.x)} value(s), and the vector of "
            f"any text changes at least {100 * min(changed_shares):.0f} % of them: they are no items",
            'give the items themselves and their statistic, such as `Items("average-precision", gold, '
            "predicted)`; or an `example` with more items",
        )


RULES = {"lists": lists, "scores": scores, "repeatable": repeatable, "items": items}
