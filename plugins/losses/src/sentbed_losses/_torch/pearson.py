"""The module of the loss `pearson`."""

from __future__ import annotations

import torch
from sentbed.protocols import LossOutput
from torch import nn

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.similarity import correlation, pairwise_cosine
from sentbed_losses.columns import SCORE


class PearsonLoss(nn.Module):
    """The loss `pearson`; see `sentbed_losses.pearson.Pearson`."""

    def forward(self, inputs: Columns) -> LossOutput:
        """Return the loss of a batch with the columns `anchor`, `positive` and `score`."""
        cosine = pairwise_cosine(inputs["anchor"], inputs["positive"])
        coefficient = correlation(cosine, inputs[SCORE].to(torch.float32))

        rows = len(cosine)
        # In the authors' code, the covariance divides by n and the standard deviations by n - 1.
        loss = 1 - coefficient * (rows - 1) / rows
        return LossOutput(loss, {"correlation": coefficient.detach()})
