"""The loss `similarity-kl`."""

from __future__ import annotations

from typing import Literal

import attrs
from attrs.validators import optional
from sentbed.protocols import LossTraits, Module

from sentbed_losses.columns import HARD_NEGATIVES
from sentbed_losses.teacher_base import Taught, teachers
from sentbed_losses.temperature import fixed_temperature


@attrs.frozen
class SimilarityKL(Taught):
    """The divergence of the similarities of a batch from a teacher's.

    For the similarities s of an anchor with its candidates, those of the teacher t, and temperatures T_s and
    T_t, the loss of a row is

        T_s^2 * KL( softmax(t / T_t) || softmax(s / T_s) )

    averaged over the rows. The teacher is an encoder in `freeze`, of any width; the data source `for-teacher`
    has its columns.

    Source: Lin et al. 2020, section 4.
    """

    name = "similarity-kl"

    candidates: Literal["batch", "row"] = "batch"
    """`batch`: every positive and hard negative of the batch. `row`: the row's own positive and hard
    negatives, of which there must be one."""
    temperature: float = attrs.field(default=0.05, validator=fixed_temperature)
    """Divisor of the student's similarities, > 0."""
    teacher_temperature: float | None = attrs.field(
        default=None, validator=optional(fixed_temperature)
    )
    """Divisor of the teacher's similarities, > 0; default: `temperature`."""
    similarity: Literal["cosine", "dot"] = "cosine"
    """`cosine`, or the plain dot product."""

    @property
    def traits(self) -> LossTraits:
        """Return the columns the loss takes: texts, and the same from a teacher."""
        needs = frozenset({"anchor", "positive"})
        if self.candidates == "row":
            needs |= {"negative"}

        takes = frozenset(HARD_NEGATIVES) - needs
        return LossTraits(
            cites=("lin2020distilling",),
            needs=needs | teachers(needs),
            takes=takes | teachers(takes),
            targets=teachers(needs | takes),
        )

    def build(self, width: int) -> Module:
        """Return `module(vectors) -> LossOutput`.

        Metric: `agreement`, the share of anchors whose nearest candidate is the teacher's.
        """
        from sentbed_losses._torch.similarity_kl import SimilarityKLLoss

        return SimilarityKLLoss(
            candidates=self.candidates,
            temperature=self.temperature,
            teacher_temperature=self.teacher_temperature,
            similarity=self.similarity,
        )
