"""The loss `info-nce`."""

from __future__ import annotations

import attrs
from sentbed.protocols import LossTraits, Module

from sentbed_losses.contrastive_base import Contrastive


@attrs.frozen
class InfoNCE(Contrastive):
    """In-batch softmax over similarities, with hard negatives if the data has them.

    For anchors v, positives v+ and hard negatives v- of a batch of n rows, with similarity s,
    temperature t, margin m and hard negative weight w, the loss of row i is

        -log( e_i / ( e_i + sum_{j != i} exp(s(v_i, v_j+) / t) + sum_j w_ij exp(s(v_i, v_j-) / t) ) )

    with e_i = exp((s(v_i, v_i+) - m) / t), w_ii = w and w_ij = 1 otherwise, averaged over the rows; every
    hard negative of the batch is in every row's denominator, from each of the columns `negative`,
    `negative_2`, ... that the data has. If `symmetric`, the loss is the mean of this
    and of the same loss with anchors and positives exchanged and without hard negatives.

    Both masks are off by default. They remove positives and hard negatives of other rows from row i's
    denominator, never the row's own, which the data names. In the other direction, candidates are
    compared with the row's anchor instead of its positive.

    Source: Sentence-T5, equations 1 and 2; SimCSE, equations 1 and 5.
    """

    name = "info-nce"
    papers = ("oord2018infonce", "gao2021simcse")

    @property
    def traits(self) -> LossTraits:
        """Return the traits of a contrastive loss; it also trains token vectors."""
        return attrs.evolve(
            super().traits, reads=frozenset({"vector", "sparse", "tokens"})
        )

    def build(self, width: int) -> Module:
        """Return `module(vectors) -> LossOutput`.

        Metrics: `accuracy`, the share of anchors whose nearest candidate in the denominator is their own
        positive; `temperature`, if it is learned; `negatives`, the mean number of negatives in a
        denominator, if a mask is on.
        """
        from sentbed_losses._torch.info_nce import InfoNCELoss

        return InfoNCELoss(**self.module_arguments(), counts_negatives=self.masked)
