"""The module of the loss `classification`."""

from __future__ import annotations

import torch
from sentbed.protocols import LossOutput
from torch import nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns


class PairClassificationLoss(nn.Module):
    """The loss `classification`; see `sentbed_losses.pair_classification.PairClassification`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(2 * width, 2)

    def forward(self, vectors: Columns) -> LossOutput:
        """Return the mean loss of a batch with the columns `anchor` and `positive`."""
        anchor = vectors["anchor"].to(torch.float32)
        positive = vectors["positive"].to(torch.float32)
        # With two classes, only the difference of their logits matters. A linear layer on [u; v] is the sum of a
        # layer on u and a layer on v, so the inputs of all batch x batch pairs need not be built.
        weight = self.classifier.weight[1] - self.classifier.weight[0]
        bias = self.classifier.bias[1] - self.classifier.bias[0]
        anchor_weight, positive_weight = weight.chunk(2)
        logits = (anchor @ anchor_weight)[:, None] + positive @ positive_weight + bias

        rows = len(logits)
        is_true_pair = torch.eye(rows, dtype=torch.bool, device=logits.device)
        losses = functional.binary_cross_entropy_with_logits(
            logits, is_true_pair.to(torch.float32), reduction="none"
        )

        # Each row has one true pair and rows - 1 others, so this weight balances the two kinds.
        is_right = (logits > 0) == is_true_pair
        balance = torch.where(is_true_pair, float(max(rows - 1, 1)), 1.0)
        accuracy = (is_right.to(torch.float32) * balance).sum() / balance.sum()
        return LossOutput(losses.sum(dim=1).mean(), {"accuracy": accuracy.detach()})
