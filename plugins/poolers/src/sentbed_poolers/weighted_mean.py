"""The pooler `weighted-mean`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module, Pooler


@attrs.frozen
class WeightedMean(Pooler):
    """The mean of the last layer's states, weighted by position: later tokens have seen more.

    With the states h_1 ... h_n of the real tokens, special tokens included, the vector is sum_i i h_i / sum_i i.

    Source: SGPT (Muennighoff, 2022), position-weighted mean pooling of a bi-encoder.
    """

    name = "weighted-mean"
    cites = ("muennighoff2022sgpt",)
    pooling = "weightedmean"

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors `(batch, width)`."""
        from sentbed_poolers._torch.weighted_mean import WeightedMeanPooling

        return WeightedMeanPooling()
