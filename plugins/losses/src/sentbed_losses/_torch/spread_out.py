"""The module of the loss `spread-out`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from sentbed.protocols import LossOutput
from torch import Tensor, nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.similarity import unit


class SpreadOutLoss(nn.Module):
    """The loss `spread-out`; see `sentbed_losses.spread_out.SpreadOut`."""

    def __init__(
        self,
        columns: Sequence[str],
        mean_weight: float,
        second_moment_weight: float,
        excess: bool,
        aggregation: str,
    ) -> None:
        super().__init__()
        self.columns = tuple(columns)
        self.mean_weight = mean_weight
        self.second_moment_weight = second_moment_weight
        self.excess = excess
        self.aggregation = aggregation

    def forward(self, vectors: Columns) -> LossOutput:
        """Return the loss of a batch."""
        means, second_moments = [], []
        for name in self.columns:
            mean, second_moment = _moments(vectors[name])
            means.append(mean)
            second_moments.append(second_moment)

        first, second = torch.stack(means), torch.stack(second_moments)
        spread = second
        if self.excess:
            width = vectors[self.columns[0]].shape[-1]
            spread = functional.relu(second - 1 / width)

        losses = self.mean_weight * first.square() + self.second_moment_weight * spread
        loss = losses.mean()
        if self.aggregation == "sum":
            loss = losses.sum()

        metrics = {
            "mean": first.mean().detach(),
            "second_moment": second.mean().detach(),
        }
        return LossOutput(loss, metrics)


def _moments(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the mean square of the cosines of all pairs of different rows; 0 for a single row."""
    vectors = unit(vectors)
    rows = len(vectors)
    is_same_row = torch.eye(rows, dtype=torch.bool, device=vectors.device)

    cosine = (vectors @ vectors.T).masked_fill(is_same_row, 0.0)
    pairs = max(rows * (rows - 1), 1)
    return cosine.sum() / pairs, cosine.square().sum() / pairs
