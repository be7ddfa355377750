"""The base class of the contrastive losses `info-nce`, `queue` and `momentum`: their common fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import attrs
from attrs.validators import ge
from sentbed.protocols import Loss, Output, Similarity, StagePlace

from sentbed_losses.columns import HARD_NEGATIVES
from sentbed_losses.temperature import LearnableTemperature, positive_temperature


@attrs.frozen
class Contrastive(Loss):
    """A softmax over the similarities of a row's candidates. The formula is in the docstring of `InfoNCE`."""

    columns = frozenset({"anchor", "positive"})
    reads = frozenset[Output]({"vector", "sparse"})
    in_batch = True
    """Whether other texts of the batch are in a row's denominator; a field of `queue` and `momentum`."""

    temperature: float | LearnableTemperature = attrs.field(
        default=0.05,
        validator=positive_temperature,
    )
    """Divisor of the similarities, > 0: 0.05 in SimCSE, 0.01 in Sentence-T5. A table instead of a number lets
    the temperature be learned; see `LearnableTemperature`."""
    similarity: Literal["cosine", "dot"] | None = None
    """`cosine`, or `dot` for the dot product without normalisation. It is used if the encoder's recipe names no
    similarity; default: `cosine`."""
    symmetric: bool = False
    """Whether to rank the anchors of the batch for each positive, too, and to average both directions."""
    hard_negatives: Literal["batch", "own", "none"] = "batch"
    """Which hard negatives are in a row's denominator: `batch` for those of all rows, `own` for those of the row,
    `none` for none. With `none`, hard negatives are not even encoded."""
    hardness: float = attrs.field(default=0.0, validator=ge(0))
    """Strength by which harder ones of a row's own hard negatives get a higher weight, >= 0. The term of one with
    similarity s is multiplied by exp(hardness * s). This factor has no gradient, and the temperature does not
    divide s in it. 0 changes nothing; 5 in EmbeddingGemma."""
    mask_duplicates: bool = False
    """Whether to leave a candidate out of a row's denominator if its text equals the row's positive or anchor."""
    of_encoder: Similarity | None = attrs.field(
        default=None,
        kw_only=True,
        metadata={"skip": True},
    )
    """The similarity that the encoder's recipe names; it replaces `similarity`. `compared_by` sets it."""

    @property
    def takes(self) -> frozenset[str]:
        """Hard negatives, if they are in the denominators."""
        if self.hard_negatives == "none":
            return frozenset()
        return frozenset(HARD_NEGATIVES)

    @property
    def needs(self) -> frozenset[str]:
        """The numbers of texts, if equal texts are left out of the denominators."""
        if self.mask_duplicates:
            return frozenset({"text-ids"})
        return frozenset()

    def compared_by(self, similarity: Similarity) -> Contrastive:
        """Return a copy of the loss that compares vectors by the similarity of the encoder."""
        return attrs.evolve(self, of_encoder=similarity)

    def misfits(self, place: StagePlace) -> Iterator[str]:
        """Yield a problem if the encoder names another similarity than the loss."""
        if self.of_encoder is None:
            return

        name = self.of_encoder.name
        if self.similarity not in (None, name):
            yield (
                f"`similarity` of the loss `{self.name}` is `{self.similarity}`, and the encoder names "
                f"`{name}`; take one of them out"
            )

    @property
    def counts_negatives(self) -> bool:
        """Whether the number of negatives is a metric, since denominators differ in their number of terms."""
        return self.mask_duplicates
