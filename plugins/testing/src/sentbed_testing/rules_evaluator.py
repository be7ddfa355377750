"""Rules of an evaluator, tested with an encoder that derives pseudo-random vectors from texts."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.protocols import (
    BuiltBackbone,
    DrivesEncoder,
    Evaluation,
    PlacedEncoder,
    Preparation,
    Prepared,
    Score,
    TextEncoder,
    Texts,
    TokenBatch,
    Vectors,
)

from sentbed_testing.component_under_test import NotRunError, Subject

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed_testing.conformance import Findings

WIDTH = 16
FEW = 20
"""Largest number of values that are suspected of being folds, thresholds or scores, not items."""
TRIED_TEXTS = 12
"""Number of texts whose vector is changed, one after the other."""
MOST_MOVED = 0.5
"""Largest share of values that may change with the vector of one text, if the values are items."""
ROUNDING = 0.006
"""Tolerance between a score and the one computed from its items: papers and SentEval round to two digits."""


class LetterBackbone(BuiltBackbone):
    """Backbone of a `LetterEncoder`: a linear head over 26 letters, and no tokenizer."""

    vocabulary = tuple("abcdefghijklmnopqrstuvwxyz")
    width = WIDTH

    def logits(self, states: Any) -> Any:
        """Return one logit per letter."""
        import numpy as np

        return states @ np.random.default_rng(0).standard_normal((WIDTH, 26)).astype(
            np.float32
        )


class LetterEncoder(TextEncoder):
    """Text encoder without weights: equal texts have equal pseudo-random vectors."""

    def __init__(self) -> None:
        self.backbone = LetterBackbone()
        self.misused = ""
        """Type of an argument of `encode` that is not a sequence of strings; empty if there was none."""
        self.other: str | None = None
        """Text whose vector is replaced by another one."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text."""
        import numpy as np

        if isinstance(texts, str) or not isinstance(texts, Sequence):
            self.misused = type(texts).__name__
        rows = [self._vector(text) for text in texts]
        return np.array(rows, np.float32).reshape(len(rows), WIDTH)

    def at_length(self, max_length: int) -> LetterEncoder:
        """Return the encoder itself, so that evaluators of speed at a given length can be tested."""
        return self

    def through(self, wrap: Callable[[PlacedEncoder], PlacedEncoder]) -> TextEncoder:
        """Return an encoder that passes the code points of texts to the wrapped `LetterPlaced`."""
        return _Through(wrap(LetterPlaced(self)))

    def _vector(self, text: str) -> NDArray[Any]:
        import numpy as np

        if not isinstance(text, str):
            self.misused = f"a list with {type(text).__name__}"
        salt = "another " if text == self.other else ""
        seed = int.from_bytes(
            hashlib.sha256(f"{salt}{text}".encode()).digest()[:8], "little"
        )
        return np.random.default_rng(seed).standard_normal(WIDTH)


class LetterPlaced(PlacedEncoder):
    """Placed part of a `LetterEncoder`: its tokens are code points."""

    width = WIDTH

    def __init__(self, encoder: LetterEncoder) -> None:
        self.encoder = encoder

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Return the vectors of the texts that the code points spell."""
        rows = (
            "".join(map(chr, filter(None, row.tolist()))) for row in batch.input_ids
        )
        return self.encoder.encode(list(rows))


@attrs.frozen
class _Through(TextEncoder):
    placed: PlacedEncoder

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        ids = np.zeros((len(texts), max(map(len, texts), default=0)), np.int64)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = [ord(letter) for letter in text]
        batch = TokenBatch(ids, (ids > 0).astype(np.int64))
        return next(iter(self.placed.encode_batches([batch])))


def _prepared(subject: Subject) -> Preparation:
    """Prepare once for all rules. Raises `NotRunError` if the result cannot be evaluated."""
    if "prepared" not in subject.kept:
        subject.kept["prepared"] = subject.ready.prepare()
    prepared = subject.kept["prepared"]
    if not isinstance(prepared, Prepared | DrivesEncoder):
        raise NotRunError("it prepares nothing; see the rule `lists`")
    return prepared


def _first(subject: Subject) -> tuple[Evaluation, LetterEncoder]:
    """Evaluate once for all rules that need it once."""
    prepared = _prepared(subject)
    if "evaluation" not in subject.kept:
        encoder = LetterEncoder()
        if isinstance(prepared, Prepared):
            vectors = subject.kept["vectors"] = _Taken(prepared.lists, encoder)
            subject.kept["evaluation"] = prepared.score(vectors), encoder
        else:
            subject.kept["evaluation"] = prepared.evaluate(encoder), encoder

    first: tuple[Evaluation, LetterEncoder] = subject.kept["evaluation"]
    return first


def lists(subject: Subject) -> Findings:
    """`prepare` returns lists of strings, the same every time, and every list is used."""
    prepared = subject.ready.prepare()
    subject.kept.setdefault("prepared", prepared)
    if isinstance(prepared, DrivesEncoder):
        return
    if not isinstance(prepared, Prepared):
        yield (
            f"`prepare` returns {type(prepared).__name__}",
            "return `Prepared`, or `DrivesEncoder` where it must drive the encoder itself",
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
        if len(texts.second) and not subject.ready.traits.two_sided:
            fix = "say `EvaluatorTraits(two_sided=True)`, or make it one side"
            yield f"the list `{name}` has a second side", fix

    _first(subject)
    if left := sorted(prepared.lists.keys() - subject.kept["vectors"].names):
        yield (
            f"the vectors of the list `{left[0]}` are not used",
            "leave it out of what is prepared",
        )

    again = subject.ready.prepare().lists
    if {name: texts.both for name, texts in again.items()} != {
        name: texts.both for name, texts in prepared.lists.items()
    }:
        yield (
            "it prepares other texts the second time",
            "draw from a `seed` that is a field",
        )


class _Taken(Vectors):
    """`Vectors` that record the names of the lists that are read."""

    @cached_property
    def names(self) -> set[str]:
        """Names of the lists that were read."""
        return set()

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        self.names.add(name)
        return super().__getitem__(name)


def scores(subject: Subject) -> Findings:
    """Its scores and the primary number are finite, and each score has a distinct protocol."""
    evaluation, encoder = _first(subject)
    if not isinstance(evaluation, Evaluation):
        yield f"its score is {type(evaluation).__name__}", "return an `Evaluation`"
        return
    if not evaluation.scores:
        yield "there are no scores", "return at least one `Score`"
    if not _finite(evaluation.primary):
        yield (
            f"`primary` is {evaluation.primary!r}",
            "give the number that validation goes by: higher is better",
        )

    for score in evaluation.scores:
        score_name = f"{score.task}/{score.metric}"
        if not _finite(score.value):
            yield (
                f"the score {score_name} is {score.value!r}",
                "give a finite number, x 100 for a share",
            )
        if not score.protocol.get("id"):
            yield (
                f"the protocol of {score_name} has no `id`",
                "say in `protocol` how the number was obtained: `id`, `split`, all that makes it comparable",
            )

    names = set(map(_name, evaluation.scores))
    if len(names) < len(evaluation.scores):
        yield (
            "two scores have the same task, metric and protocol",
            "let the protocol say what differs",
        )

    if encoder.misused:
        yield f"it encodes {encoder.misused}", "give `encode` a list of strings"


def _finite(value: object) -> bool:
    return (
        isinstance(value, float | int)
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def repeatable(subject: Subject) -> Findings:
    """A second evaluation of the same encoder gives the same scores, also if prepared anew."""
    first, encoder = _first(subject)[0], LetterEncoder()
    for other in (
        _prepared(subject).evaluate(encoder),
        subject.ready.prepare().evaluate(encoder),
    ):
        if differing := list(_differing(_numbers(first), _numbers(other))):
            yield from differing
            return


def _differing(
    first: Mapping[tuple[str, ...], float], second: Mapping[tuple[str, ...], float]
) -> Findings:
    for name in sorted(first.keys() | second.keys()):
        value, other = first.get(name), second.get(name)
        if value != other:
            yield (
                f"the score {'/'.join(name[:2])} is {value!r}, and {other!r} the second time",
                "draw from a `seed` that is a field, and keep nothing between calls",
            )
            return


def _numbers(evaluation: Evaluation) -> dict[tuple[str, ...], float]:
    numbers: dict[tuple[str, ...], float] = {}
    for score in evaluation.scores:
        numbers[_name(score)] = score.value
    numbers["", "primary", ""] = evaluation.primary
    return numbers


def _name(score: Score) -> tuple[str, str, str]:
    """Return the key of a score within its evaluation."""
    protocol = repr(sorted(score.protocol.items(), key=str))
    return score.task, score.metric, protocol


def items(subject: Subject) -> Findings:
    """A score can be recomputed from its items, and `item_texts` has the encoded texts of each item."""
    for score in _first(subject)[0].scores:
        if score.items is None:
            continue
        again = score.items.value()
        if not abs(again - score.value) <= ROUNDING:
            yield (
                f"the score {score.task}/{score.metric} is {score.value!r}, and its items give {again!r}",
                "give the items, the statistic, the groups and the scale that the score was computed with",
            )
        yield from _aggregate_findings(subject, score)
        yield from _item_text_findings(subject, score, len(score.items.x))


def _item_text_findings(subject: Subject, score: Score, count: int) -> Findings:
    """Yield a finding if `item_texts` does not have as many items as the score, or texts not encoded."""
    prepared = _prepared(subject)
    if not isinstance(prepared, Prepared):
        return
    by_key = prepared.item_texts()
    texts = by_key.get(f"{score.task}/{score.metric}", by_key.get(score.task))
    if texts is None:
        return
    if len(texts) != count:
        yield (
            f"`item_texts` has {len(texts)} items of {score.task}/{score.metric}, and the score has {count}",
            "give the texts of each item, in the order of the items",
        )

    encoded: set[str] = set()
    for of_list in prepared.lists.values():
        encoded.update(of_list.both)
    for item in texts:
        if not encoded.issuperset(item):
            yield (
                f"`item_texts` has an item of {score.task} with a text that no list has: {item!r:.80}",
                "give a tuple of the texts that are encoded for the item",
            )
            return


def _aggregate_findings(subject: Subject, score: Score) -> Findings:
    """Yield a finding if a score is the mean of a few aggregates, such as folds, in place of items.

    The value of an item does not change with the vector of another item's text; aggregates change with every
    text.
    """
    prepared, items = _prepared(subject), score.items
    if (
        items is None
        or items.statistic != "mean"
        or len(items.x) > FEW
        or not isinstance(prepared, Prepared)
    ):
        return

    encoder, moved = LetterEncoder(), []
    texts: list[str] = []
    for name in sorted(prepared.lists):
        texts += dict.fromkeys(prepared.lists[name].both)

    for text in dict.fromkeys(texts[:: max(1, len(texts) // TRIED_TEXTS)]):
        encoder.other = text
        for again in prepared.evaluate(encoder).scores:
            if _name(again) != _name(score) or again.items is None:
                continue
            if len(again.items.x) != len(items.x):
                continue
            share = float((again.items.x != items.x).mean())
            if share:
                moved.append(share)

    if moved and min(moved) > MOST_MOVED:
        yield (
            f"the score {score.task}/{score.metric} is the mean of {len(items.x)} value(s), of which "
            f"every text decides at least {100 * min(moved):.0f} %: they are no items",
            'give the items themselves and their statistic, such as `Items("average-precision", gold, '
            "predicted)` or a function of your module; or an `example` with more items",
        )


RULES = {"lists": lists, "scores": scores, "repeatable": repeatable, "items": items}
