"""The tokens that a language model predicts after a prompt."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import ge
from sentbed import DataError, FilePath, RunError, locate
from sentbed.protocols import (
    Backbone,
    DrivesEncoder,
    Evaluation,
    Evaluator,
    Head,
    Items,
    Pooler,
    Score,
    TextEncoder,
)
from sentbed_common import require_finite

from sentbed_evaluators.text_lines import read_lines, text_file_problems, texts_digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SENTENCES = (
    "A jockey riding a horse.",
    "A woman is slicing an onion.",
    "Two children build a castle of sand at the beach.",
    "The central bank raised interest rates again.",
    "Heavy rain flooded the streets of the old town.",
    "He plays the violin in an orchestra.",
    "The surgeon operated all night.",
    "Nobody laughed at his joke.",
)
"""Sentences to look at where a recipe names none."""

READS = frozenset({"causal", "mask-token"})
"""Needs of the poolers whose vector is the state from which a token is predicted."""

BLOCK = 64
"""Number of texts whose logits are held at a time."""


@attrs.frozen
class Prediction:
    """The likeliest tokens after one text, the likeliest first, with their probabilities."""

    text: str
    tokens: tuple[tuple[str, float], ...]


@attrs.frozen(eq=False)
class NextTokenEvaluation(Evaluation):
    """Scores, and the predictions that the report shows."""

    predictions: tuple[Prediction, ...] = ()


@attrs.frozen
class NextToken(Evaluator):
    """The tokens that a language model predicts where a prompt reads a sentence's vector.

    The vector of the poolers `prompt`, `prompt-eol` and `mask` is the state from which the model predicts a
    token; its language-modelling head gives the probability of each. The report lists the `count` likeliest
    for each sentence, the encoders of a recipe side by side. PromptEOL explains its template by them: asked
    for one word, a model answers with a word that stands for the sentence, not with an article.

    Three scores describe the predictions; none says that an encoder is good. `distinct`: the number of
    different likeliest tokens, in percent of the sentences (100 / n where one token is the answer to all).
    `top-1`: the mean probability of the likeliest token x 100. `entropy`: the mean entropy of the
    distribution over the vocabulary, in bits.

    Source: PromptEOL, section 3.2.

    `primary` is `distinct`.
    """

    name: ClassVar[str] = "next-token"

    texts: tuple[str, ...] = SENTENCES
    """Sentences to look at."""
    path: FilePath | None = None
    """Instead of `texts`: a text file, one sentence per line."""
    count: int = attrs.field(default=5, validator=ge(1))
    """Number of tokens to list for each sentence."""

    def check(self) -> Iterator[str]:
        """Yield problems with the sentences."""
        if self.path is not None and self.texts != SENTENCES:
            yield "`texts` and `path` exclude each other; remove one"
        if self.path is None and not (self.texts and all(map(str.strip, self.texts))):
            yield "`texts` is empty or has an empty sentence; give sentences, or leave it out"
        if self.path is not None:
            yield from text_file_problems(self.path)

    def misfits(self, backbone: Backbone, pooler: Pooler, head: Head) -> Iterator[str]:
        """Yield why the vectors of these parts predict no token."""
        if not backbone.traits.predicts:
            yield (
                f"`{self.name}` asks a language model for its next token, and the backbone `{backbone.name}` "
                "as it is here predicts none: it has no head for that, one with random weights, or reads "
                "other `layers` than the last; use a pretrained causal model with the pooler `prompt-eol`, "
                "or a pretrained BERT with the pooler `mask`"
            )
        if not READS & pooler.traits.needs:
            yield (
                f"`{self.name}` needs the state from which a token is predicted, and the vector of the "
                f"pooler `{pooler.name}` is none; use `prompt`, `prompt-eol` or, with a masked language "
                "model, `mask`"
            )
        if head != Head():
            yield (
                f"`{self.name}` needs the state from which a token is predicted, and the encoder's `head` "
                "changes it; take `head` out, or name an encoder without it"
            )

    def prepare(self) -> DrivesEncoder:
        """Read the sentences; raises `DataError`."""
        for problem in self.check():
            raise DataError(problem)
        texts = (
            self.texts if self.path is None else tuple(read_lines(locate(self.path)))
        )
        return DrivesEncoder(partial(self._evaluate, texts), lambda: texts)

    def _evaluate(self, texts: tuple[str, ...], encoder: TextEncoder) -> Evaluation:
        """Predict; raises `RunError` if the encoder has no vocabulary, or its logits are not finite."""
        import numpy as np

        if encoder.backbone is None or not len(encoder.backbone.vocabulary):
            raise RunError(
                f"`{self.name}` reads the predictions of a backbone, and this encoder has none; evaluate an "
                "encoder of sentbed whose backbone is a language model"
            )
        vectors = require_finite(encoder.encode(texts), texts)
        if (width := vectors.shape[1]) != encoder.backbone.width:
            raise RunError(
                f"`{self.name}` reads states of {encoder.backbone.width} numbers, and the encoder's vectors "
                f"have {width}: several prompts side by side predict no token; evaluate one with one"
            )
        blocks = []
        for start in range(0, len(texts), BLOCK):
            logits = encoder.backbone.logits(vectors[start : start + BLOCK])
            blocks.append(_likeliest(logits, min(self.count, logits.shape[1])))
            encoder.progress("next-token", min(start + BLOCK, len(texts)), len(texts))
        tokens, chances, entropy = (
            np.concatenate(part) for part in zip(*blocks, strict=True)
        )
        words = encoder.backbone.vocabulary
        predictions = []
        for text, row, row_chances in zip(
            texts, tokens.tolist(), chances.tolist(), strict=True
        ):
            likeliest = [words[token] for token in row]
            pairs = zip(likeliest, row_chances, strict=True)
            predictions.append(Prediction(text, tuple(pairs)))
        distinct = 100 * len(set(tokens[:, 0].tolist())) / len(texts)
        protocol: dict[str, Any] = {
            "id": self.name,
            "sentences": len(texts),
            "vocabulary": len(words),
            "data": texts_digest(texts),
        }
        score = partial(Score, self.name, protocol=protocol, direction="none")
        top = Items("mean", chances[:, 0])
        bits = Items("mean", entropy, scale=1.0)
        scores = (
            score("distinct", distinct),
            score("top-1", 100 * float(top.x.mean()), items=top),
            score("entropy", float(entropy.mean()), items=bits),
        )
        return NextTokenEvaluation(scores, distinct, predictions=tuple(predictions))


def _likeliest(
    logits: NDArray[np.float32], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the likeliest tokens and their probabilities, each `(n, count)`, and the entropies in bits."""
    import numpy as np

    scores = logits.astype(np.float64)
    highest = scores.max(axis=1, keepdims=True)
    # A logit of minus infinity is that of a token which the model never predicts.
    if not np.isfinite(highest).all():
        raise RunError(
            "the backbone's logits have NaN or infinite values; run in fp32, or check its weights"
        )
    scores -= highest
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    chances = np.exp(scores)
    # The first of equal ones, so that a list does not depend on how many are asked for.
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    entropy = -(chances * np.where(chances > 0, scores, 0.0)).sum(axis=1) / np.log(2)
    return order, np.take_along_axis(chances, order, axis=1), entropy
