"""The spread-out regulariser."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from sentbed.protocols import LossOutput
from torch.nn import functional

from sentbed_losses._torch.similarity import unit
from sentbed_losses.spread_out import SpreadOut


class SpreadOutLoss(torch.nn.Module):
    """See `sentbed_losses.spread_out.SpreadOut`."""

    def __init__(self, parameters: SpreadOut) -> None:
        super().__init__()
        self.options = parameters

    def forward(self, vectors: Mapping[str, torch.Tensor]) -> LossOutput:
        """Return the loss of a batch."""
        own = self.options
        moments = [_moments(vectors[name]) for name in own.columns]
        first, second = (torch.stack(values) for values in zip(*moments, strict=True))
        spread = second
        if own.excess:
            spread = functional.relu(second - 1 / vectors[own.columns[0]].shape[-1])
        terms = own.mean_weight * first.square() + own.second_moment_weight * spread
        loss = terms.sum() if own.aggregation == "sum" else terms.mean()
        metrics = {"mean": first.mean().detach(), "second_moment": second.mean().detach()}
        return LossOutput(loss, metrics)


def _moments(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and mean square of the cosines of different rows; 0 of a single row."""
    vectors = unit(vectors)
    rows = len(vectors)
    same = torch.eye(rows, dtype=torch.bool, device=vectors.device)
    cosine = (vectors @ vectors.T).masked_fill(same, 0.0)
    pairs = max(rows * (rows - 1), 1)
    return cosine.sum() / pairs, cosine.square().sum() / pairs
