"""The loss `margin-mse`."""

from __future__ import annotations

from typing import Literal

import attrs
from sentbed.protocols import Loss, Module

from sentbed_losses.columns import SCORE


@attrs.frozen
class MarginMSE(Loss):
    """The squared difference of a row's margin and the margin that a teacher gave it.

    For an anchor v, its positive v+ and hard negative v-, their similarities s, and the teacher's margin m in the
    column `score`, the loss of a row is (s(v, v+) - s(v, v-) - m)^2. It is averaged over the rows. The data
    source `scored` must have `rescale = false` to read margins.

    Source: Hofstätter et al. 2020, equation 2.
    """

    name = "margin-mse"
    other_names = (
        "MarginMSELoss",
        "SparseMarginMSELoss",
    )

    cites = ("hofstaetter2020marginmse",)
    columns = frozenset({"anchor", "positive", "negative", SCORE})
    takes = frozenset()
    numbers = frozenset({SCORE})

    similarity: Literal["cosine", "dot"] = "dot"
    """`dot` for the dot product without normalisation, as in the paper, or `cosine`."""

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(inputs)` and returns a `LossOutput`.

        Its metric `margin` is the mean of s(v, v+) - s(v, v-).
        """
        from sentbed_losses._torch.margin_mse import MarginMSELoss

        return MarginMSELoss(similarity=self.similarity)
