"""InfoNCE."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed.protocols import LossOutput
from torch import Tensor

from sentbed_losses._torch.contrastive_base import ContrastiveLoss


class InfoNCELoss(ContrastiveLoss):
    """See `sentbed_losses.info_nce.InfoNCE`."""

    def forward(self, vectors: Mapping[str, Tensor]) -> LossOutput:
        """Return the mean loss of a batch; `vectors` has `anchor`, `positive` and perhaps `negative`."""
        return LossOutput(*self.contrast(self.columns(vectors)))
