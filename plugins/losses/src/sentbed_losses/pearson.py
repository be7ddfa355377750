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

    over the whole batch, also if several devices share it. As in the authors' code, the standard deviations
    divide by n - 1 and the covariance divides by n. This scales the correlation by (n - 1) / n, so the smallest
    loss is 1 / n, not 0. If all cosines or all scores are equal, the correlation is defined as 0. The scale of
    the scores does not matter.

    Source: Zhang and Li 2024 (Pcc-tuning).
    """

    name = "pearson"
    cites = ("zhang2024pcctuning",)

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(inputs)` and returns a `LossOutput`.

        Its metric `correlation` is Pearson's correlation, without the scaling by (n - 1) / n.
        """
        from sentbed_losses._torch.pearson import PearsonLoss

        return PearsonLoss()
