"""Pearson's correlation."""

from __future__ import annotations

import torch
from sentbed.protocols import LossOutput
from torch import nn

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.similarity import correlation, pairwise_cosine
from sentbed_losses.columns import SCORE


class PearsonLoss(nn.Module):
    """See `sentbed_losses.pearson.Pearson`."""

    def forward(self, inputs: Columns) -> LossOutput:
        """Return the loss of a batch with `anchor`, `positive` and `score`."""
        cosine = pairwise_cosine(inputs["anchor"], inputs["positive"])
        coefficient = correlation(cosine, inputs[SCORE].to(torch.float32))

        rows = len(cosine)
        # A biased covariance over unbiased variances, as in the authors' code.
        loss = 1 - coefficient * (rows - 1) / rows
        return LossOutput(loss, {"correlation": coefficient.detach()})
