"""Measures of rankings, as trec_eval defines them: nDCG, recall, MRR and MAP, one value from 0 to 1 per query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values: TypeAlias = NDArray[np.float64]

FORMULAS: dict[str, str] = {
    "ndcg": "sum grade / log2(rank + 1), over that of the ideal order",
    "recall": "relevant found / relevant",
    "mrr": "1 / rank of the first relevant",
    "map": "sum of the precision at each relevant found / relevant",
}
"""The measures as formulas, for the protocol of a score."""


@attrs.frozen(eq=False)
class Ranking:
    """The grades of the retrieved documents of each query, by rank, and the grades of an ideal ranking."""

    grades: Values
    """`(queries, depth)`: grade of the document at each rank; 0 if it is not relevant."""
    ideal: Values
    """`(queries, depth)`: the highest grades of the relevant documents, descending, then zeros."""
    relevant: Values
    """`(queries,)`: number of relevant documents, at least 1."""

    @classmethod
    def of(
        cls,
        places: NDArray[np.int64],
        relevant: Sequence[Mapping[int, int]],
        depth: int,
    ) -> Ranking:
        """Return the grades of the documents at `places`; `relevant` has the grades (> 0) of relevant documents.

        `places` is `(queries, n)`, the documents of each query by rank. `depth` is the highest k of any measure;
        n may be lower.
        """
        import numpy as np

        grades = np.zeros((len(places), depth))
        ideal = np.zeros((len(places), depth))
        count = np.zeros(len(places))
        for row, grade_of_document in enumerate(relevant):
            documents = places[row, :depth].tolist()
            by_rank = [grade_of_document.get(document, 0) for document in documents]
            grades[row, : len(by_rank)] = by_rank
            best = sorted(grade_of_document.values(), reverse=True)[:depth]
            ideal[row, : len(best)] = best
            count[row] = len(grade_of_document)

        return cls(grades, ideal, count)

    def measure(self, metric: str, k: int) -> Values:
        """Return the measure of the name `metric`, a key of `FORMULAS`, cut off at rank `k`, `(queries,)`."""
        values: Values = getattr(self, metric)(k)
        return values

    def ndcg(self, k: int) -> Values:
        """Return the normalised discounted cumulative gain, with linear gain (trec_eval's `ndcg_cut`)."""
        return _discounted(self.grades[:, :k]) / _discounted(self.ideal[:, :k])

    def recall(self, k: int) -> Values:
        """Return the share of the relevant documents that is retrieved (trec_eval's `recall`)."""
        recall: Values = (self.grades[:, :k] > 0).sum(axis=1) / self.relevant
        return recall

    def mrr(self, k: int) -> Values:
        """Return the reciprocal rank of the first relevant document, 0 without one (trec_eval's `recip_rank`)."""
        import numpy as np

        hits = self.grades[:, :k] > 0
        return np.where(hits.any(axis=1), 1 / (1 + hits.argmax(axis=1)), 0.0)

    def map(self, k: int) -> Values:
        """Return the mean of the precisions at the relevant documents (trec_eval's `map_cut`).

        The precision of a relevant document that is not retrieved is 0.
        """
        import numpy as np

        hits = self.grades[:, :k] > 0
        precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
        average: Values = (precision * hits).sum(axis=1) / self.relevant

        return average


def _discounted(grades: Values) -> Values:
    """Return the discounted cumulative gain of grades `(queries, ranks)`."""
    import numpy as np

    gain: Values = (grades / np.log2(np.arange(2, grades.shape[1] + 2))).sum(axis=1)
    return gain
