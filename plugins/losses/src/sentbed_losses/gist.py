"""The loss `gist`."""

from __future__ import annotations

from typing import Literal

import attrs
from attrs.validators import ge
from sentbed.protocols import Module

from sentbed_losses.columns import HARD_NEGATIVES
from sentbed_losses.teacher_base import Taught, teachers
from sentbed_losses.temperature import LearnableTemperature, positive_temperature

PAIR = frozenset({"anchor", "positive"})


@attrs.frozen
class Gist(Taught):
    """InfoNCE whose false negatives a teacher finds (GISTEmbed).

    The denominator of a row has the cosines of its anchor with all positives, hard negatives and other anchors of
    the batch, and the cosines of its positive with all other positives.

    A term is left out if the teacher's cosine of the same two texts exceeds a threshold. With the teacher's
    cosine t of the row's anchor and positive, the threshold is t - margin (`absolute`) or t - |t| margin
    (`relative`). The term of the row's own positive is never left out.

    The teacher is an encoder that the stage names in `freeze`. Its vectors may have another width than the
    student's. The data source `for-teacher` adds its columns.

    Source: Solatorio 2024 (GISTEmbed), section 3; the margins are those of sentence-transformers.
    """

    name = "gist"
    other_names = (
        "GISTEmbedLoss",
        "CachedGISTEmbedLoss",
    )

    temperature: float | LearnableTemperature = attrs.field(
        default=0.01,
        validator=positive_temperature,
    )
    """Divisor of the cosines, > 0. A table instead of a number lets it be learned; see `LearnableTemperature`."""
    margin: float = attrs.field(default=0.0, validator=ge(0))
    """Distance of the threshold below the teacher's cosine of the row's own pair, >= 0; see `margin_kind` for its
    unit."""
    margin_kind: Literal["absolute", "relative"] = "absolute"
    """Whether the margin is a difference of cosines, or a share of the own pair's cosine."""
    contrast_anchors: bool = True
    """Whether the denominator has the cosines of the anchor with other anchors."""
    contrast_positives: bool = True
    """Whether the denominator has the cosines of the positive with other positives."""

    cites = ("solatorio2024gistembed",)
    columns = PAIR | teachers(PAIR)
    takes = frozenset(HARD_NEGATIVES) | teachers(frozenset(HARD_NEGATIVES))
    targets = teachers(PAIR.union(HARD_NEGATIVES))

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(vectors)` and returns a `LossOutput`.

        Its metric `accuracy` is the share of rows in which no cosine in the denominator exceeds that of the own
        pair. `negatives` is the mean number of negatives in a denominator. There is the metric `temperature` if
        the temperature is learned.
        """
        from sentbed_losses._torch.gist import GistLoss
        from sentbed_losses._torch.temperature import temperature_module

        return GistLoss(
            temperature=temperature_module(self.temperature),
            margin=self.margin,
            margin_kind=self.margin_kind,
            contrast_anchors=self.contrast_anchors,
            contrast_positives=self.contrast_positives,
        )
