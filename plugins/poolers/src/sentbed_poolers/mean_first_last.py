"""The pooler `mean-first-last`."""

from __future__ import annotations

from typing import Literal

import attrs
from sentbed.protocols import Module, Pooler


@attrs.frozen
class MeanFirstLast(Pooler):
    """The mean of the first and last layer, averaged over the real tokens, special tokens included.

    Source: SimCSE, table 5 (first-last avg.); BERT-whitening (Su et al., 2021).
    """

    name = "mean-first-last"
    cites = ("gao2021simcse", "su2021whitening")
    needs = frozenset({"layers"})

    first: Literal["layer-1", "embeddings"] = "layer-1"
    """The layer that is used as the first. `layer-1`: the first transformer layer, as in BERT-whitening and in
    SimCSE's code since January 2022 (its issue 133). `embeddings`: the output of the embeddings, as in SimCSE's
    code until then."""

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors `(batch, width)`."""
        from sentbed_poolers._torch.mean_first_last import MeanFirstLastPooling

        first = 1
        if self.first == "embeddings":
            first = 0

        return MeanFirstLastPooling(first)
