"""The loss `distill`."""

from __future__ import annotations

from typing import Literal

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import Module

from sentbed_losses.columns import HARD_NEGATIVES
from sentbed_losses.teacher_base import Taught, teachers

_TEXTS = frozenset({"positive", *HARD_NEGATIVES})


@attrs.frozen
class Distill(Taught):
    """The distance of each vector from a teacher's vector of the same text.

    The columns are `anchor`, and each of `positive` and the hard negatives for which the data also has the
    teacher's column. The loss is averaged over the rows of a column, then over the columns. Vectors are not
    normalised.

    The teacher is an encoder that the stage names in `freeze`. The data source `for-teacher` adds its columns.

    Source: Reimers and Gurevych 2020 (`mse`).
    """

    name = "distill"
    other_names = (
        "MSELoss",
        "EmbedDistillLoss",
        "SparseMSELoss",
    )

    distance: Literal["mse", "l2", "cosine"] = "mse"
    """Distance of two vectors. `mse`: the mean squared difference of their components. `l2`: the Euclidean
    distance. `cosine`: 1 - cosine."""
    projection: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Width of the teacher's vectors, if the student's have another width. A learned linear layer then maps the
    student's vectors to this width. It is trained with the student, but not saved with it. Default: no layer."""

    cites = ("reimers2020multilingual",)
    columns = frozenset({"anchor", *teachers(frozenset({"anchor"}))})
    takes = _TEXTS | teachers(_TEXTS)
    targets = teachers(_TEXTS | {"anchor"})

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(vectors)` and returns a `LossOutput`.

        Its metric `cosine` is the mean cosine of the student's vectors with the teacher's. It raises `RunError`
        if the teacher's vectors have another width than those of the student after the projection.
        """
        from sentbed_losses._torch.distill import DistillLoss

        return DistillLoss(width, distance=self.distance, projection=self.projection)
