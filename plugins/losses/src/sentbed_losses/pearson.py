"""The loss `pearson`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module

from sentbed_losses.scored_pair_base import ScoredPairs


@attrs.frozen
class Pearson(ScoredPairs):
    """1 - Pearson's correlation of the cosines and scores of a batch (Pcc-tuning).

    For the cosines x and scores y of a batch of n rows, the loss is

        1 - mean((x - mean x) (y - mean y)) / (sd x sd y)

    over the whole batch, on all devices. As in the authors' code, the standard deviations are unbiased
    (n - 1) and the covariance is not: the correlation is scaled by (n - 1) / n, so that the minimum is 1 / n,
    not 0. Where all cosines or all scores are equal, the correlation counts as 0. The scale of scores does
    not matter.

    Source: Zhang and Li 2024 (Pcc-tuning).
    """

    name = "pearson"
    papers = ("zhang2024pcctuning",)

    def build(self, width: int) -> Module:
        """Return `module(inputs) -> LossOutput`; its metric `correlation` is Pearson's, not scaled."""
        from sentbed_losses._torch.pearson import PearsonLoss

        return PearsonLoss()
