"""The evaluator `next-token`: the tokens that a language model predicts after a prompt."""

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
"""The sentences that are used if a recipe names none."""

PREDICTING_NEEDS = frozenset({"causal", "mask-token"})
"""A pooler whose `PoolerTraits.needs` has one of these values returns the state from which the model predicts a
token."""

BLOCK = 64
"""Number of texts whose logits are in memory at a time."""


@attrs.frozen
class Prediction:
    """The most likely tokens after a text, the most likely one first, with their probabilities."""

    text: str
    tokens: tuple[tuple[str, float], ...]


@attrs.frozen(eq=False)
class NextTokenEvaluation(Evaluation):
    """The scores of `next-token`, and the predictions that the report shows."""

    predictions: tuple[Prediction, ...] = ()


@attrs.frozen
class NextToken(Evaluator):
    """The tokens that a language model predicts where a prompt reads a sentence's vector.

    The vector of the poolers `prompt`, `prompt-eol` and `mask` is the state from which the model predicts a
    token. The model's language-modelling head maps it to a probability for each token. The report lists the
    `count` most likely tokens of each sentence, with the encoders of a recipe side by side. PromptEOL explains
    its template by such predictions: a model that is asked for one word answers with a word that stands for the
    sentence, not with an article.

    Three scores describe the predictions; none of them measures the quality of an encoder.

    - `distinct`: the number of different tokens that are the most likely one for a sentence, in percent of the
      sentences. It is 100 / n if n sentences have the same most likely token.
    - `top-1`: the mean probability of the most likely token x 100.
    - `entropy`: the mean entropy, in bits, of the distribution over the vocabulary.

    Source: PromptEOL, section 3.2.

    `primary` is `distinct`.
    """

    name: ClassVar[str] = "next-token"

    texts: tuple[str, ...] = SENTENCES
    """Sentences for which tokens are predicted."""
    path: FilePath | None = None
    """Instead of `texts`: a text file with one sentence per line."""
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

    def misfits(
        self,
        backbone: Backbone,
        pooler: Pooler,
        head: Head,
    ) -> Iterator[str]:
        """Yield the reasons why no token can be predicted from the vectors of an encoder with these parts."""
        if not backbone.traits.predicts:
            yield (
                f"`{self.name}` needs a language model, but the backbone `{backbone.name}` cannot predict tokens "
                "as it is configured here: it has no language-modelling head, a head with random weights, or "
                "other `layers` than the last; use a pretrained causal model with the pooler `prompt-eol`, or a "
                "pretrained BERT with the pooler `mask`"
            )
        if not PREDICTING_NEEDS & pooler.traits.needs:
            yield (
                f"`{self.name}` needs the state from which a token is predicted, but the pooler `{pooler.name}` "
                "returns another vector; use `prompt`, `prompt-eol` or, with a masked language model, `mask`"
            )
        if head != Head():
            yield (
                f"`{self.name}` needs the state from which a token is predicted, but the encoder's `head` "
                "changes it; take `head` out, or name an encoder without it"
            )

    def prepare(self) -> DrivesEncoder:
        """Read the sentences; raises `DataError` if `check` finds a problem or the file cannot be read."""
        for problem in self.check():
            raise DataError(problem)
        texts = self.texts
        if self.path is not None:
            texts = tuple(read_lines(locate(self.path)))
        return DrivesEncoder(partial(self._evaluate, texts), lambda: texts)

    def _evaluate(self, texts: tuple[str, ...], encoder: TextEncoder) -> Evaluation:
        """Predict tokens and score the predictions.

        Raises:
            RunError: if the encoder has no vocabulary, joins the vectors of several prompts, or has vectors or
                logits that are not finite.
        """
        import numpy as np

        if encoder.backbone is None or not len(encoder.backbone.vocabulary):
            raise RunError(
                f"`{self.name}` reads the predictions of a backbone, and this encoder has none; evaluate an "
                "encoder of sentbed whose backbone is a language model"
            )

        vectors = require_finite(encoder.encode(texts), texts)
        width = vectors.shape[1]
        if width != encoder.backbone.width:
            raise RunError(
                f"`{self.name}` reads states of {encoder.backbone.width} numbers, and the encoder's vectors "
                f"have {width}: several prompts side by side predict no token; evaluate an encoder with "
                "a single prompt"
            )

        words = encoder.backbone.vocabulary
        predictions = []
        highest, entropies = [], []
        first_tokens: set[int] = set()
        for start in range(0, len(texts), BLOCK):
            logits = encoder.backbone.logits(vectors[start : start + BLOCK])
            count = min(self.count, logits.shape[1])
            tokens, probabilities, entropy = _most_likely(logits, count)
            highest.append(probabilities[:, 0])
            entropies.append(entropy)
            for row, text in enumerate(texts[start : start + BLOCK]):
                words_of_text = [words[token] for token in tokens[row].tolist()]
                pairs = zip(words_of_text, probabilities[row].tolist(), strict=True)
                predictions.append(Prediction(text, tuple(pairs)))
            first_tokens.update(tokens[:, 0].tolist())
            encoder.progress("next-token", min(start + BLOCK, len(texts)), len(texts))

        distinct = 100 * len(first_tokens) / len(texts)
        protocol: dict[str, Any] = {
            "id": self.name,
            "sentences": len(texts),
            "vocabulary": len(words),
            "data": texts_digest(texts),
        }
        score = partial(Score, self.name, protocol=protocol, direction="none")
        top = Items("mean", np.concatenate(highest))
        bits = Items("mean", np.concatenate(entropies), scale=1.0)
        scores = (
            score("distinct", distinct),
            score("top-1", 100 * float(top.x.mean()), items=top),
            score("entropy", float(bits.x.mean()), items=bits),
        )
        return NextTokenEvaluation(scores, distinct, predictions=tuple(predictions))


def _most_likely(
    logits: NDArray[np.float32], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the `count` most likely tokens of each row, their probabilities, and each row's entropy in bits.

    Tokens and probabilities are `(n, count)`, entropies `(n,)`. Raises `RunError` for NaN or infinite logits.
    """
    import numpy as np

    scores = logits.astype(np.float64)
    highest = scores.max(axis=1, keepdims=True)
    # Logits of minus infinity are allowed: a model never predicts such a token.
    if not np.isfinite(highest).all():
        raise RunError(
            "the backbone's logits have NaN or infinite values; run in fp32, or check its weights"
        )
    scores -= highest
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    probabilities = np.exp(scores)
    # A stable sort puts the first of equally likely tokens first, so that the order does not depend on `count`.
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    # A probability of 0 adds nothing to the entropy.
    logarithms = np.where(probabilities > 0, scores, 0.0)
    entropy = -(probabilities * logarithms).sum(axis=1) / np.log(2)
    return order, np.take_along_axis(probabilities, order, axis=1), entropy
