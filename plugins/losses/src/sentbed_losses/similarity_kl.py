"""The loss `similarity-kl`."""

from __future__ import annotations

from typing import Literal

import attrs
from attrs.validators import optional
from sentbed.protocols import Module

from sentbed_losses.columns import HARD_NEGATIVES
from sentbed_losses.teacher_base import Taught, teachers
from sentbed_losses.temperature import fixed_temperature


@attrs.frozen
class SimilarityKL(Taught):
    """The divergence of the similarities of a batch from a teacher's.

    Let s be the student's similarities of an anchor with its candidates, t the teacher's, and T_s and T_t the
    temperatures of student and teacher. The loss of a row is

        T_s^2 * KL( softmax(t / T_t) || softmax(s / T_s) )

    averaged over the rows. The teacher is an encoder that the stage names in `freeze`. Its vectors may have
    another width than the student's. The data source `for-teacher` adds its columns.

    Source: Lin et al. 2020, section 4.
    """

    name = "similarity-kl"
    other_names = (
        "DistillKLDivLoss",
        "SparseDistillKLDivLoss",
    )

    candidates: Literal["batch", "row"] = "batch"
    """Candidates of an anchor. `batch`: all positives and hard negatives of the batch. `row`: the row's own
    positive and hard negatives; the data must have at least one column of hard negatives."""
    temperature: float = attrs.field(default=0.05, validator=fixed_temperature)
    """Divisor of the student's similarities, > 0."""
    teacher_temperature: float | None = attrs.field(
        default=None, validator=optional(fixed_temperature)
    )
    """Divisor of the teacher's similarities, > 0; default: `temperature`."""
    similarity: Literal["cosine", "dot"] = "cosine"
    """`cosine`, or `dot` for the dot product without normalisation."""

    cites = ("lin2020distilling",)

    @property
    def columns(self) -> frozenset[str]:
        """The texts that are compared, and the same texts encoded by a teacher."""
        texts = frozenset({"anchor", "positive"})
        if self.candidates == "row":
            texts |= {"negative"}
        return texts | teachers(texts)

    @property
    def takes(self) -> frozenset[str]:
        """Further hard negatives, and the same texts encoded by a teacher."""
        texts = frozenset(HARD_NEGATIVES) - self.columns
        return texts | teachers(texts)

    @property
    def targets(self) -> frozenset[str]:
        """The columns of the teacher."""
        return teachers(frozenset({"anchor", "positive", *HARD_NEGATIVES}))

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(vectors)` and returns a `LossOutput`.

        Its metric `agreement` is the share of anchors for which student and teacher have the same most similar
        candidate.
        """
        from sentbed_losses._torch.similarity_kl import SimilarityKLLoss

        return SimilarityKLLoss(
            candidates=self.candidates,
            temperature=self.temperature,
            teacher_temperature=self.teacher_temperature,
            similarity=self.similarity,
        )
