"""The loss `classification`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Loss, Module


@attrs.frozen
class PairClassification(Loss):
    """A linear classifier that tells true pairs from all other pairs of the batch (SentBench's CLS).

    For anchors v and positives v+ of a batch of n rows, the loss of row i is

        -log P(1 | v_i, v_i+) - sum_{j != i} log P(0 | v_i, v_j+)

    averaged over the rows. P(. | u, v) is the softmax of a learned linear layer with two outputs, whose input is
    the concatenation [u; v]. The layer is trained with the encoder, but not saved with it.

    Source: SentBench, equation of L_CLS.
    """

    name = "classification"
    cites = ("liu2023sentbench",)
    columns = frozenset({"anchor", "positive"})
    takes = frozenset()

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(vectors)` and returns a `LossOutput`.

        Its metric `accuracy` is the balanced accuracy: the mean of the accuracy on true pairs and the accuracy on
        all other pairs. Guessing gives 0.5.
        """
        from sentbed_losses._torch.pair_classification import PairClassificationLoss

        return PairClassificationLoss(width)
