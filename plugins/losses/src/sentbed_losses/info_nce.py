"""The loss `info-nce`."""

from __future__ import annotations

from typing import ClassVar, Literal

import attrs
from attrs.validators import gt
from sentbed.protocols import Module


@attrs.frozen
class InfoNCE:
    """In-batch softmax over similarities, with hard negatives where the data has them.

    For anchors v, positives v+ and hard negatives v- of a batch of n rows, with similarity s and
    temperature t, the loss of row i is

        -log( exp(s(v_i, v_i+) / t) / sum_j [ exp(s(v_i, v_j+) / t) + exp(s(v_i, v_j-) / t) ] )

    averaged over the rows; every hard negative of the batch is in every row's denominator.

    Source: Sentence-T5, equations 1 and 2; SimCSE, equations 1 and 5.
    """

    name: ClassVar[str] = "info-nce"
    needs: ClassVar[frozenset[str]] = frozenset({"anchor", "positive"})

    temperature: float = attrs.field(default=0.05, validator=gt(0))
    """Divides the similarities, > 0: 0.05 in SimCSE, 0.01 in Sentence-T5."""
    similarity: Literal["cosine", "dot"] = "cosine"
    """`cosine`, or the plain dot product (for vectors that the head has normalised, or on purpose)."""
    symmetric: bool = False
    """Also rank the anchors for each positive, and take the mean of both directions."""

    def build(self, width: int) -> Module:
        """Return `module(vectors) -> LossOutput`; metrics: `accuracy`, the share of rows ranked right."""
        from sentbed_losses._torch.info_nce import InfoNCELoss

        return InfoNCELoss(self)
