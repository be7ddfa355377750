"""The module of the loss `margin-mse`."""

from __future__ import annotations

import torch
from sentbed.protocols import LossOutput
from torch import nn

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.similarity import scaled
from sentbed_losses.columns import SCORE


class MarginMSELoss(nn.Module):
    """The loss `margin-mse`; see `sentbed_losses.margin_mse.MarginMSE`."""

    def __init__(self, similarity: str) -> None:
        super().__init__()
        self.cosine = similarity == "cosine"

    def forward(self, inputs: Columns) -> LossOutput:
        """Return the mean loss of a batch with the columns `anchor`, `positive`, `negative` and `score`."""
        anchor = scaled(inputs["anchor"], self.cosine)
        positive = scaled(inputs["positive"], self.cosine)
        negative = scaled(inputs["negative"], self.cosine)

        margin = (anchor * positive).sum(dim=-1) - (anchor * negative).sum(dim=-1)
        error = margin - inputs[SCORE].to(torch.float32)
        return LossOutput(error.square().mean(), {"margin": margin.mean().detach()})
