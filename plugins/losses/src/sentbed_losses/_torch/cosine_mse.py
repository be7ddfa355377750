"""The module of the loss `cosine-mse`."""

from __future__ import annotations

import torch
from sentbed.protocols import LossOutput
from torch import nn

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.similarity import correlation, pairwise_cosine
from sentbed_losses.columns import SCORE


class CosineMSELoss(nn.Module):
    """The loss `cosine-mse`; see `sentbed_losses.cosine_mse.CosineMSE`."""

    def forward(self, inputs: Columns) -> LossOutput:
        """Return the mean loss of a batch with the columns `anchor`, `positive` and `score`."""
        cosine = pairwise_cosine(inputs["anchor"], inputs["positive"])
        score = inputs[SCORE].to(torch.float32)
        metrics = {"correlation": correlation(cosine.detach(), score.detach())}
        return LossOutput((cosine - score).square().mean(), metrics)
