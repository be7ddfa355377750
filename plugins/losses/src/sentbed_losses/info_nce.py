"""The loss `info-nce`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module, Output

from sentbed_losses.contrastive_base import Contrastive


@attrs.frozen
class InfoNCE(Contrastive):
    """In-batch softmax over similarities, with hard negatives if the data has them.

    For anchors v, positives v+ and hard negatives v- of a batch of n rows, with similarity s and
    temperature t, the loss of row i is

        -log( e_i / ( e_i + sum_{j != i} exp(s(v_i, v_j+) / t) + sum_j exp(s(v_i, v_j-) / t) ) )

    with e_i = exp(s(v_i, v_i+) / t). It is averaged over the rows. By default, the denominator of every row has
    the hard negatives of all rows, from all columns `negative`, `negative_2`, ... that the data has.

    If `symmetric`, a second loss is computed with anchors and positives exchanged and without hard negatives, and
    the two losses are averaged.

    `mask_duplicates` leaves positives and hard negatives of other rows out of row i's denominator, but never the
    row's own.

    Source: Sentence-T5, equations 1 and 2; SimCSE, equations 1 and 5.
    """

    name = "info-nce"
    other_names = (
        "MNRL",
        "MultipleNegativesRankingLoss",
        "MultipleNegativesSymmetricRankingLoss",
        "CachedMultipleNegativesRankingLoss",
        "CachedMultipleNegativesSymmetricRankingLoss",
        "SparseMultipleNegativesRankingLoss",
    )
    cites = ("oord2018infonce", "gao2021simcse")

    reads = frozenset[Output]({"vector", "sparse", "tokens"})

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(vectors)` and returns a `LossOutput`.

        Its metric `accuracy` is the share of anchors whose most similar candidate in the denominator is their own
        positive. There is the metric `temperature` if the temperature is learned. If candidates may be left out,
        there is the metric `negatives`, the mean number of negatives in a denominator.
        """
        from sentbed_losses._torch.info_nce import InfoNCELoss

        return InfoNCELoss(self)
