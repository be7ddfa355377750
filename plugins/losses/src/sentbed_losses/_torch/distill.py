"""The module of the loss `distill`."""

from __future__ import annotations

import torch
from sentbed.errors import RunError
from sentbed.protocols import LossOutput
from torch import Tensor, nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns, columns_with_teacher
from sentbed_losses._torch.similarity import lengths, pairwise_cosine
from sentbed_losses.columns import TEACHER


class DistillLoss(nn.Module):
    """The loss `distill`; see `sentbed_losses.distill.Distill`."""

    def __init__(
        self,
        width: int,
        distance: str,
        projection: int | None,
    ) -> None:
        super().__init__()
        self.distance = distance
        self.projection: nn.Module = nn.Identity()
        self.width = width
        if projection is not None:
            self.projection = nn.Linear(width, projection)
            self.width = projection

    def forward(self, vectors: Columns) -> LossOutput:
        """Return the mean loss of a batch. Raises `RunError` if student and teacher differ in width."""
        losses, cosines = [], []
        for name in columns_with_teacher(vectors):
            student: Tensor = self.projection(vectors[name].to(torch.float32))
            teacher = vectors[TEACHER + name].to(torch.float32)
            width = teacher.shape[-1]
            if width != self.width:
                raise RunError(
                    f"the loss `distill` compares vectors of width {self.width} with a teacher's of width "
                    f"{width}; set `projection = {width}` in the loss, or in the student's head"
                )

            losses.append(self._distance(student, teacher))
            cosines.append(pairwise_cosine(student, teacher).mean())

        cosine = torch.stack(cosines).mean()
        return LossOutput(torch.stack(losses).mean(), {"cosine": cosine.detach()})

    def _distance(self, student: Tensor, teacher: Tensor) -> Tensor:
        """Return the mean distance of the vectors in the same rows."""
        if self.distance == "mse":
            return functional.mse_loss(student, teacher)
        if self.distance == "l2":
            return lengths(student - teacher).mean()

        return (1 - pairwise_cosine(student, teacher)).mean()
