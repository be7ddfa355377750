"""The loss `cosent`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module

from sentbed_losses.pairwise_ranking_base import Ranking


@attrs.frozen
class CoSENT(Ranking):
    """Pairs in the order of their scores: a softmax over all pairs of rows (CoSENT).

    For the cosine c_i of row i, its score y_i and temperature t, the loss of a batch is

        log( 1 + sum over (i, j) with y_i < y_j of exp((c_i - c_j) / t) )

    Rows of equal score are not compared, and the scale of scores does not matter. The logarithm is taken
    once for the whole batch: it is no mean over rows, and grows with the batch.

    Source: Huang et al. 2024 (CoSENT).
    """

    name = "cosent"
    papers = ("huang2024cosent",)

    def build(self, width: int) -> Module:
        """Return `module(inputs) -> LossOutput`.

        Its metric `correlation` is Pearson's, of similarities and scores in the batch.
        """
        from sentbed_losses._torch.cosent import CoSENTLoss

        return CoSENTLoss(temperature=self.temperature, rows=self.rows)
