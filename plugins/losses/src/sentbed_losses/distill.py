"""The loss `distill`."""

from __future__ import annotations

from typing import Literal

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import LossTraits, Module

from sentbed_losses.columns import HARD_NEGATIVES
from sentbed_losses.teacher_base import Taught, teachers

_TEXTS = frozenset({"positive", *HARD_NEGATIVES})


@attrs.frozen
class Distill(Taught):
    """The distance of each vector from a teacher's vector of the same text.

    Averaged over the rows of a column, then over the columns: `anchor`, and `positive` and hard negatives
    where the data has them and their teacher's columns. The teacher is an encoder in `freeze`; the data
    source `for-teacher` has its columns. Vectors are compared as they are, without normalisation.

    Source: Reimers and Gurevych 2020 (`mse`).
    """

    name = "distill"

    distance: Literal["mse", "l2", "cosine"] = "mse"
    """`mse`: the mean squared difference of components. `l2`: Euclidean. `cosine`: 1 - cosine."""
    projection: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Width of the teacher's vectors, to which a learned linear layer maps those of the student. The layer is
    trained with the student and not saved with it. Default: no layer, for vectors of one width."""

    @property
    def traits(self) -> LossTraits:
        """Return the columns the loss takes: texts, and the same from a teacher."""
        needs = frozenset({"anchor"})
        return LossTraits(
            cites=("reimers2020multilingual",),
            needs=needs | teachers(needs),
            takes=_TEXTS | teachers(_TEXTS),
            targets=teachers(needs | _TEXTS),
        )

    def build(self, width: int) -> Module:
        """Return `module(vectors) -> LossOutput`.

        It raises `RunError` for a teacher of another width than the student or its projection. Metric:
        `cosine`, the mean cosine of a vector and its teacher's.
        """
        from sentbed_losses._torch.distill import DistillLoss

        return DistillLoss(width, distance=self.distance, projection=self.projection)
