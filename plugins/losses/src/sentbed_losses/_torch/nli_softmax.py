"""The PyTorch module that computes the loss `nli-softmax`."""

from __future__ import annotations

import torch
from sentbed.protocols import LABEL, LossOutput
from torch import nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns


class NLISoftmaxLoss(nn.Module):
    """The loss `nli-softmax`; see `sentbed_losses.nli_softmax.NLISoftmax`."""

    def __init__(
        self,
        width: int,
        classes: int,
        product: bool,
    ) -> None:
        super().__init__()
        self.product = product
        features = 3
        if product:
            features = 4

        self.classifier = nn.Linear(features * width, classes)

    def forward(self, inputs: Columns) -> LossOutput:
        """Return the mean loss of a batch with the columns `premise`, `hypothesis` and `label`."""
        u = inputs["premise"].to(torch.float32)
        v = inputs["hypothesis"].to(torch.float32)
        features = [u, v, (u - v).abs()]
        if self.product:
            features.append(u * v)

        logits = self.classifier(torch.cat(features, dim=1))
        label = inputs[LABEL]
        is_right = logits.argmax(dim=1) == label
        metrics = {"accuracy": is_right.to(torch.float32).mean()}
        return LossOutput(functional.cross_entropy(logits, label), metrics)
