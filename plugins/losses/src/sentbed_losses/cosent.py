"""The loss `cosent`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module

from sentbed_losses.pairwise_ranking_base import Ranking


@attrs.frozen
class CoSENT(Ranking):
    """Pairs of texts in the order of their scores: a softmax over all pairs of rows (CoSENT).

    For the cosine c_i of row i, its score y_i and temperature t, the loss of a batch is

        log( 1 + sum over (i, j) with y_i < y_j of exp((c_i - c_j) / t) )

    Rows with equal scores are not compared. Only the order of the scores matters. The loss is one logarithm for
    the whole batch, not a mean over rows, so it grows with the batch.

    Source: Huang et al. 2024 (CoSENT).
    """

    name = "cosent"
    other_names = (
        "CoSENTLoss",
        "SparseCoSENTLoss",
    )
    cites = ("huang2024cosent",)

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(inputs)` and returns a `LossOutput`.

        Its metric `correlation` is Pearson's correlation of the similarities and scores in the batch.
        """
        from sentbed_losses._torch.cosent import CoSENTLoss

        return CoSENTLoss(self)
