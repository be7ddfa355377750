"""The fields that the contrastive losses share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import attrs
from attrs.validators import ge, gt
from sentbed.protocols import Loss, LossTraits, Similarity

from sentbed_losses.columns import HARD_NEGATIVES
from sentbed_losses.temperature import (
    LearnableTemperature,
    positive_temperature,
    temperature_module,
)


@attrs.frozen
class Contrastive(Loss):
    """The fields of a softmax over similarities; `InfoNCE` describes their effect on the denominator."""

    papers: ClassVar[tuple[str, ...]]
    """Keys of the papers that introduced the loss."""

    temperature: float | LearnableTemperature = attrs.field(
        default=0.05, validator=positive_temperature
    )
    """The divisor of the similarities, > 0: 0.05 in SimCSE, 0.01 in Sentence-T5. A table learns its
    logarithm: `{ initial = 1.0, min = 0.01, max = 100.0 }`, which are the defaults. The value is clamped to
    the bounds, but the gradient ignores them, so that the parameter can return from a bound."""
    similarity: Literal["cosine", "dot"] | None = None
    """Similarity of encoders that name none: `cosine`, or the plain dot product `dot` (for vectors that the head
    has normalised, or on purpose); default: `cosine`."""
    symmetric: bool = False
    """Also rank the anchors of the batch for each positive, and average both directions."""
    margin: float = attrs.field(default=0.0, validator=ge(0))
    """The margin subtracted from the similarity of each true pair before the division by the temperature, >=
    0; in both directions if `symmetric`. 0 is none."""
    hard_negatives: Literal["batch", "own", "none"] = "batch"
    """Whose hard negatives are in a row's denominator: those of all rows of the batch, its own alone, or
    none; then they are not encoded."""
    hard_negative_weight: float = attrs.field(default=1.0, validator=gt(0))
    """Factor on the terms of a row's own hard negatives in its denominator, > 0; 1 is none (SimCSE)."""
    hardness: float = attrs.field(default=0.0, validator=ge(0))
    """Weight of a negative by its own similarity: its term in the denominator is multiplied by
    exp(hardness * s), where s is its similarity and passes no gradient; the temperature does not divide it.
    >= 0; 0 is none, 5 in EmbeddingGemma, 9 in LLaVE. Candidates of the other direction, if `symmetric`, have
    none."""
    hardness_of: Literal["own", "others", "all"] = "own"
    """Which negatives have it: a row's own hard negatives (EmbeddingGemma); those of other rows, positives,
    hard negatives and memory (LLaVE); or all."""
    mask_duplicates: bool = False
    """Leave a candidate out of a row's denominator if its text equals the row's positive or anchor."""
    false_negative_threshold: float | None = None
    """Leave a candidate out of a row's denominator if its similarity to the row's positive exceeds this
    value; default: leave none out. It passes no gradient."""
    of_encoder: Similarity | None = attrs.field(
        default=None, kw_only=True, metadata={"skip": True}
    )
    """The similarity that the encoder names, in the place of `similarity`; see `compared_by`."""

    def remarks(self) -> Iterator[str]:
        """Yield a setting that does nothing."""
        if self.hardness == 0 and self.hardness_of != "own":
            yield (
                f'`hardness_of = "{self.hardness_of}"` of the loss `{self.name}` does nothing: `hardness` is '
                "0; set it, or take `hardness_of` out"
            )

    @property
    def traits(self) -> LossTraits:
        """Return the columns the loss takes: pairs, optional hard negatives, text ids to find duplicates."""
        takes = frozenset(HARD_NEGATIVES)
        if self.hard_negatives == "none":
            takes = frozenset()

        return LossTraits(
            cites=self.papers,
            needs=frozenset({"anchor", "positive"}),
            takes=takes,
            compares_texts=self.mask_duplicates,
            reads=frozenset({"vector", "sparse"}),
        )

    def compared_by(self, similarity: Similarity) -> Contrastive:
        """Return the loss of this similarity."""
        return attrs.evolve(self, of_encoder=similarity)

    def misfits(self, batch_size: int, fixed: frozenset[str]) -> Iterator[str]:
        """Yield what contradicts the similarity."""
        is_cosine = self.similarity != "dot"
        if self.of_encoder is not None:
            is_cosine = self.of_encoder.traits.formula == "cosine"
            name = self.of_encoder.name
            if self.similarity not in (None, name):
                yield (
                    f"`similarity` of the loss `{self.name}` is `{self.similarity}`, and the encoder names "
                    f"`{name}`; take one of them out"
                )

        threshold = self.false_negative_threshold
        if threshold is not None and is_cosine and not -1 < threshold < 1:
            yield (
                f"`false_negative_threshold` is {threshold!r}, and a cosine lies between -1 and 1; "
                "choose a number in between, such as 0.9, or take it out"
            )

    @property
    def masked(self) -> bool:
        """Whether the rows of a batch may have denominators of different sizes."""
        return self.mask_duplicates or self.false_negative_threshold is not None

    def module_arguments(self) -> dict[str, Any]:
        """Return the arguments that these fields are of a contrastive module."""
        from sentbed_losses._torch.similarity import Products

        return {
            "temperature": temperature_module(self.temperature),
            "similarity": self.of_encoder or Products(self.similarity != "dot"),
            "symmetric": self.symmetric,
            "margin": self.margin,
            "hard_negatives": self.hard_negatives,
            "hard_negative_weight": self.hard_negative_weight,
            "hardness": self.hardness,
            "hardness_of": self.hardness_of,
            "mask_duplicates": self.mask_duplicates,
            "false_negative_threshold": self.false_negative_threshold,
        }

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int:
        """Return the largest number of negatives in a denominator: other positives and all hard negatives."""
        rows = {"batch": batch_size, "own": 1, "none": 0}[self.hard_negatives]
        return batch_size - 1 + rows * len(columns & set(HARD_NEGATIVES))
