"""Divergence of similarities from a teacher's."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from sentbed.protocols import LossOutput
from torch import Tensor, nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.similarity import scaled
from sentbed_losses.columns import HARD_NEGATIVES, TEACHER


class SimilarityKLLoss(nn.Module):
    """See `sentbed_losses.similarity_kl.SimilarityKL`."""

    def __init__(
        self,
        candidates: str,
        temperature: float,
        teacher_temperature: float | None,
        similarity: str,
    ) -> None:
        super().__init__()
        self.by_row = candidates == "row"
        self.temperature = temperature
        self.teacher_temperature = teacher_temperature or temperature
        self.cosine = similarity == "cosine"

    def forward(self, vectors: Columns) -> LossOutput:
        """Return the mean loss of a batch."""
        names = [
            name
            for name in ("positive", *HARD_NEGATIVES)
            if name in vectors and TEACHER + name in vectors
        ]
        student = self._similarities(vectors, "anchor", names)
        teacher = self._similarities(
            vectors, TEACHER + "anchor", [TEACHER + name for name in names]
        )
        log_student = functional.log_softmax(student / self.temperature, dim=1)
        of_teacher = functional.softmax(teacher / self.teacher_temperature, dim=1)
        loss = (
            functional.kl_div(log_student, of_teacher, reduction="batchmean")
            * self.temperature**2
        )
        agreement = (
            (student.argmax(dim=1) == teacher.argmax(dim=1)).to(torch.float32).mean()
        )
        return LossOutput(loss, {"agreement": agreement})

    def _similarities(
        self,
        vectors: Columns,
        anchor: str,
        candidates: Sequence[str],
    ) -> Tensor:
        """Return the similarities of each anchor with its candidates, `(batch, candidates)`."""
        anchors, *others = (
            scaled(vectors[name], self.cosine) for name in (anchor, *candidates)
        )
        if self.by_row:
            return torch.stack(
                [(anchors * other).sum(dim=-1) for other in others], dim=1
            )
        return anchors @ torch.cat(others).T
