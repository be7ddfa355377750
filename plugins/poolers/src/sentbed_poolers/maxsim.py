"""The similarity `maxsim`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Similarity, Tensor, TokenVectors


@attrs.frozen
class MaxSim(Similarity):
    """For each token of the first text its best dot product with one of the second, added up (ColBERT).

    With the vectors u_1 ... u_m of the first text's tokens and v_1 ... v_n of the second text's, it is sum_i
    max_j u_i v_j. The first text is the query; with the texts exchanged, the number is another. The similarity
    with a second text without tokens is -10^9.

    Source: Khattab and Zaharia (2020), section 3.3.
    """

    name = "maxsim"
    cites = ("khattab2020colbert",)
    compares = frozenset({"tokens"})

    mean: bool = False
    """Whether to divide the sum by the number of the first text's tokens, so that it does not grow with this
    number."""

    def similarity(self, first: TokenVectors, second: TokenVectors) -> Tensor:
        """Return the similarity of each text of `first` with each of `second`, `(n, m)`."""
        from sentbed_poolers._torch.maxsim import maxsim

        return maxsim(first, second, self.mean)

    def pairwise(self, first: TokenVectors, second: TokenVectors) -> Tensor:
        """Return the similarity of the two texts in each row, `(n,)`."""
        from sentbed_poolers._torch.maxsim import pairwise_maxsim

        return pairwise_maxsim(first, second, self.mean)
