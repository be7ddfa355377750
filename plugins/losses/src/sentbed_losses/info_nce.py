"""The loss `info-nce`."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import Module

from sentbed_losses.contrastive import Contrastive


@attrs.frozen
class InfoNCE(Contrastive):
    """In-batch softmax over similarities, with hard negatives where the data has them.

    For anchors v, positives v+ and hard negatives v- of a batch of n rows, with similarity s,
    temperature t, margin m and hard negative weight w, the loss of row i is

        -log( e_i / ( e_i + sum_{j != i} exp(s(v_i, v_j+) / t) + sum_j w_ij exp(s(v_i, v_j-) / t) ) )

    with e_i = exp((s(v_i, v_i+) - m) / t), w_ii = w and w_ij = 1 otherwise, averaged over the rows; every
    hard negative of the batch is in every row's denominator. Symmetric: the same with anchors and
    positives exchanged and without hard negatives, and the mean of both.

    Both masks are off unless asked for. They take positives and hard negatives of other rows out of row
    i's denominator, never the row's own, which the data names. In the other direction, what counts is
    the row's anchor where it is the row's positive here.

    Source: Sentence-T5, equations 1 and 2; SimCSE, equations 1 and 5.
    """

    name: ClassVar[str] = "info-nce"
    papers: ClassVar[tuple[str, ...]] = ("oord2018infonce", "gao2021simcse")

    def build(self, width: int) -> Module:
        """Return `module(vectors) -> LossOutput`.

        Metrics: `accuracy`, the share of anchors nearest to their own positive among the candidates in
        their denominator; `temperature`, where it is learned; `negatives`, the mean number of negatives in
        a denominator, where a mask is on.
        """
        from sentbed_losses._torch.info_nce import InfoNCELoss

        return InfoNCELoss(self)
