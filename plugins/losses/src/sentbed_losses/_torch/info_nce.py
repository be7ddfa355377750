"""The module of the loss `info-nce`."""

from __future__ import annotations

from sentbed.protocols import LossOutput

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.contrastive_base import ContrastiveLoss


class InfoNCELoss(ContrastiveLoss):
    """The loss `info-nce`; see `sentbed_losses.info_nce.InfoNCE`."""

    def forward(self, vectors: Columns) -> LossOutput:
        """Return the mean loss of a batch with the columns `anchor` and `positive`, and perhaps hard
        negatives."""
        return LossOutput(*self.contrast(self.columns(vectors)))
