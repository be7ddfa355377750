"""The loss `cosine-mse`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module

from sentbed_losses.scored_pair_base import ScoredPairs


@attrs.frozen
class CosineMSE(ScoredPairs):
    """Squared difference of a pair's cosine and its score, averaged over the rows.

    Scores are not rescaled, so the data must have them in [0, 1] or [-1, 1].

    Source: Reimers and Gurevych 2019 (SBERT), section 3, regression objective.
    """

    name = "cosine-mse"
    other_names = (
        "CosineSimilarityLoss",
        "SparseCosineSimilarityLoss",
    )
    cites = ("reimers2019sbert",)

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(inputs)` and returns a `LossOutput`.

        Its metric `correlation` is Pearson's correlation of the cosines and scores in the batch.
        """
        from sentbed_losses._torch.cosine_mse import CosineMSELoss

        return CosineMSELoss()
