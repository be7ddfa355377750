"""SentBench's classification loss."""

from __future__ import annotations

import torch
from sentbed.protocols import LossOutput
from torch import nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns


class PairClassificationLoss(nn.Module):
    """See `sentbed_losses.pair_classification.PairClassification`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(2 * width, 2)

    def forward(self, vectors: Columns) -> LossOutput:
        """Return the mean loss of a batch; `vectors` has `anchor` and `positive`."""
        anchor = vectors["anchor"].to(torch.float32)
        positive = vectors["positive"].to(torch.float32)
        # A linear layer on [u; v] is the sum of one on u and one on v, and with two classes only the
        # difference of the logits matters: batch x batch numbers instead of pairs of batch x batch x 2 width.
        weight = self.classifier.weight[1] - self.classifier.weight[0]
        bias = self.classifier.bias[1] - self.classifier.bias[0]
        of_anchor, of_positive = weight.chunk(2)
        logits = (anchor @ of_anchor)[:, None] + positive @ of_positive + bias

        rows = len(logits)
        true = torch.eye(rows, dtype=torch.bool, device=logits.device)
        losses = functional.binary_cross_entropy_with_logits(
            logits, true.to(torch.float32), reduction="none"
        )

        right = ((logits > 0) == true).to(torch.float32)
        share = torch.where(true, float(max(rows - 1, 1)), 1.0)
        accuracy = (right * share).sum() / share.sum()
        return LossOutput(losses.sum(dim=1).mean(), {"accuracy": accuracy.detach()})
