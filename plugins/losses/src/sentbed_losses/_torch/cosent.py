"""The PyTorch module that computes the loss `cosent`."""

from __future__ import annotations

import math

import torch
from sentbed.protocols import LossOutput
from torch import Tensor, nn

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.similarity import correlation, pairwise_cosine
from sentbed_losses.columns import HARD_NEGATIVES, SCORE
from sentbed_losses.pairwise_ranking_base import Ranking


class CoSENTLoss(nn.Module):
    """The loss `cosent`; see `sentbed_losses.cosent.CoSENT`."""

    def __init__(self, settings: Ranking) -> None:
        super().__init__()
        self.settings = settings

    def similarity(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the similarity of each row of `u` and `v`, fp32 `(rows,)`."""
        return pairwise_cosine(u, v)

    def forward(self, inputs: Columns) -> LossOutput:
        """Return the loss of a batch with the columns `anchor` and `positive`, and `score` or hard negatives."""
        anchor, positive = inputs["anchor"], inputs["positive"]
        if self.settings.rows == "scored":
            similarity = self.similarity(anchor, positive)
            score = inputs[SCORE].to(torch.float32)
        else:
            similarities = [self.similarity(anchor, positive)]
            for name in HARD_NEGATIVES:
                if name in inputs:
                    similarities.append(self.similarity(anchor, inputs[name]))

            similarity = torch.cat(similarities)
            # The positives come first, and have the score 1.
            place = torch.arange(len(similarity), device=similarity.device)
            score = (place < len(anchor)).to(torch.float32)

        logits = similarity / self.settings.temperature
        is_lower = score[:, None] < score[None, :]
        differences = logits[:, None] - logits[None, :]
        differences = differences.masked_fill(~is_lower, -math.inf)
        # The zero gives exp(0) = 1, which is the summand 1 within the logarithm.
        terms = torch.cat([differences.new_zeros(1), differences.flatten()])
        loss = torch.logsumexp(terms, dim=0)
        metrics = {"correlation": correlation(similarity.detach(), score.detach())}
        return LossOutput(loss, metrics)
