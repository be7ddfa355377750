"""What the contrastive losses have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs
from attrs.validators import ge, gt
from sentbed.protocols import Loss, LossTraits

from sentbed_losses.temperature import LearnableTemperature, positive_temperature


@attrs.frozen
class Contrastive(Loss):
    """The fields of a softmax over similarities; see `InfoNCE` for what they do to the denominator."""

    papers: ClassVar[tuple[str, ...]]
    """Keys of the papers behind the loss."""

    temperature: float | LearnableTemperature = attrs.field(default=0.05, validator=positive_temperature)
    """Divides the similarities, > 0: 0.05 in SimCSE, 0.01 in Sentence-T5. Or a table, to learn its logarithm:
    `{ initial = 1.0, min = 0.01, max = 100.0 }`, which are the defaults. The value in use stays within the
    bounds; the gradient passes as if there were none, so that it can come back from them."""
    similarity: Literal["cosine", "dot"] = "cosine"
    """`cosine`, or the plain dot product (for vectors that the head has normalised, or on purpose)."""
    symmetric: bool = False
    """Also rank the anchors of the batch for each positive, and take the mean of both directions."""
    margin: float = attrs.field(default=0.0, validator=ge(0))
    """Subtracted from the similarity of each true pair before it is divided by the temperature, >= 0, in both
    directions where symmetric; 0 is none."""
    hard_negative_weight: float = attrs.field(default=1.0, validator=gt(0))
    """Factor on the term of a row's own hard negative in its denominator, > 0; 1 is none (SimCSE)."""
    mask_duplicates: bool = False
    """Leave a candidate out of a row's denominator where its text is that of the row's positive or anchor."""
    false_negative_threshold: float | None = None
    """Leave a candidate out of a row's denominator where its similarity to the row's positive is above this;
    none is left out where this is not given. Without gradient."""

    def check(self) -> Iterator[str]:
        """Yield what is wrong with these fields together."""
        threshold = self.false_negative_threshold
        if threshold is not None and self.similarity == "cosine" and not -1 < threshold < 1:
            yield (
                f"`false_negative_threshold` is {threshold!r}, and a cosine lies between -1 and 1; "
                "choose a number in between, such as 0.9, or take it out"
            )

    @property
    def traits(self) -> LossTraits:
        """Pairs, with hard negatives where the data has them; the numbers of texts to find duplicates."""
        return LossTraits(
            cites=self.papers,
            needs=frozenset({"anchor", "positive"}),
            takes=frozenset({"negative"}),
            compares_texts=self.mask_duplicates,
        )

    @property
    def masked(self) -> bool:
        """Whether the rows of a batch may have denominators of different sizes."""
        return self.mask_duplicates or self.false_negative_threshold is not None

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int:
        """Return the most negatives in a denominator: other positives and every hard negative."""
        hard = batch_size if "negative" in columns else 0
        return batch_size - 1 + hard
