"""The module of the loss `similarity-kl`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from sentbed.protocols import LossOutput
from torch import Tensor, nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns, columns_with_teacher
from sentbed_losses._torch.similarity import scaled
from sentbed_losses.columns import TEACHER


class SimilarityKLLoss(nn.Module):
    """The loss `similarity-kl`; see `sentbed_losses.similarity_kl.SimilarityKL`."""

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
        names = columns_with_teacher(vectors)
        student = self._similarities(vectors, names)
        teacher = self._similarities(vectors, [TEACHER + name for name in names])

        log_student = functional.log_softmax(student / self.temperature, dim=1)
        target = functional.softmax(teacher / self.teacher_temperature, dim=1)
        divergence = functional.kl_div(log_student, target, reduction="batchmean")
        agrees = student.argmax(dim=1) == teacher.argmax(dim=1)
        agreement = agrees.to(torch.float32).mean()
        return LossOutput(divergence * self.temperature**2, {"agreement": agreement})

    def _similarities(self, vectors: Columns, names: Sequence[str]) -> Tensor:
        """Return the similarities of the first column's texts with their candidates, `(batch, candidates)`.

        Candidates are the texts of the other columns, either of the same row or of all rows.
        """
        anchors, *others = [scaled(vectors[name], self.cosine) for name in names]
        if not self.by_row:
            return anchors @ torch.cat(others).T

        products = [(anchors * other).sum(dim=-1) for other in others]
        return torch.stack(products, dim=1)
