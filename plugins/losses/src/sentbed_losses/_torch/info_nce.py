"""InfoNCE."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from sentbed.protocols import LossOutput

from sentbed_losses._torch.contrastive_base import ContrastiveLoss


class InfoNCELoss(ContrastiveLoss):
    """See `sentbed_losses.info_nce.InfoNCE`."""

    def forward(self, vectors: Mapping[str, torch.Tensor]) -> LossOutput:
        """Return the mean loss of a batch; `vectors` has `anchor`, `positive` and perhaps `negative`."""
        return LossOutput(*self.contrast(self.columns(vectors)))
