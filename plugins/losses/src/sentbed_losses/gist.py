"""The loss `gist`."""

from __future__ import annotations

from typing import Literal

import attrs
from attrs.validators import ge
from sentbed.protocols import LossTraits, Module

from sentbed_losses.columns import HARD_NEGATIVES
from sentbed_losses.teacher_base import Taught, teachers
from sentbed_losses.temperature import (
    LearnableTemperature,
    positive_temperature,
    temperature_module,
)


@attrs.frozen
class Gist(Taught):
    """InfoNCE whose false negatives a teacher finds (GISTEmbed).

    The candidates of an anchor are all positives and hard negatives of the batch, with the anchor, and, with
    its positive, the other anchors with the anchor and the other positives with the positive. A candidate
    leaves the denominator where the teacher's cosine of it exceeds the threshold of the row: for the
    teacher's cosine t of the row's own pair, t - margin (`absolute`) or t - |t| margin (`relative`). The own
    positive never leaves it; no text is a candidate for itself.

    The teacher is an encoder in `freeze`, of any width; the data source `for-teacher` has its columns.

    Source: Solatorio 2024 (GISTEmbed), section 3; the margins are those of sentence-transformers.
    """

    name = "gist"

    temperature: float | LearnableTemperature = attrs.field(
        default=0.01, validator=positive_temperature
    )
    """The divisor of the cosines, > 0; a table learns it, as in `info-nce`."""
    margin: float = attrs.field(default=0.0, validator=ge(0))
    """How far below the own pair's cosine the threshold lies, >= 0."""
    margin_kind: Literal["absolute", "relative"] = "absolute"
    """Whether the margin is a cosine, or a share of the own pair's."""
    contrast_anchors: bool = True
    """Whether the other anchors are candidates."""
    contrast_positives: bool = True
    """Whether the other positives are candidates of the positive too."""

    @property
    def traits(self) -> LossTraits:
        """Return the columns the loss takes: texts, and the same from a teacher."""
        needs, takes = frozenset({"anchor", "positive"}), frozenset(HARD_NEGATIVES)
        return LossTraits(
            cites=("solatorio2024gistembed",),
            needs=needs | teachers(needs),
            takes=takes | teachers(takes),
            targets=teachers(needs | takes),
        )

    def build(self, width: int) -> Module:
        """Return `module(vectors) -> LossOutput`.

        Metrics: `accuracy`, the share of anchors whose nearest candidate is their own positive; `negatives`,
        the mean number of negatives in a denominator; `temperature`, if it is learned.
        """
        from sentbed_losses._torch.gist import GistLoss

        return GistLoss(
            temperature=temperature_module(self.temperature),
            margin=self.margin,
            margin_kind=self.margin_kind,
            contrast_anchors=self.contrast_anchors,
            contrast_positives=self.contrast_positives,
        )

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int:
        """Return the number of negatives in a denominator from which the teacher takes none out."""
        others = 1 + self.contrast_anchors + self.contrast_positives
        hard_negatives = len(columns & set(HARD_NEGATIVES))
        return others * (batch_size - 1) + batch_size * hard_negatives
