"""Measures of a ranking, as trec_eval defines them: one value per query, from 0 to 1."""

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
"""Descriptions of the metrics for a score's protocol."""


@attrs.frozen(eq=False)
class Ranking:
    """The grades of the documents at each rank for each query, and of an ideal ranking."""

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
        """Return the ranking of documents `(queries, n)`, from the grades (> 0) of the relevant ones.

        `depth` is the highest k of any measure; `n` is lower if there are fewer documents.
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
        """Return one of `FORMULAS` for each query, `(queries,)`, up to rank `k`."""
        values: Values = getattr(self, metric)(k)
        return values

    def ndcg(self, k: int) -> Values:
        """Return the normalised discounted cumulative gain with linear gain (`ndcg_cut`)."""
        return _discounted(self.grades[:, :k]) / _discounted(self.ideal[:, :k])

    def recall(self, k: int) -> Values:
        """Return the share of the relevant documents that is found (`recall`)."""
        recall: Values = (self.grades[:, :k] > 0).sum(axis=1) / self.relevant
        return recall

    def mrr(self, k: int) -> Values:
        """Return the reciprocal rank of the first relevant document, 0 if there is none (`recip_rank`)."""
        import numpy as np

        hits = self.grades[:, :k] > 0
        return np.where(hits.any(axis=1), 1 / (1 + hits.argmax(axis=1)), 0.0)

    def map(self, k: int) -> Values:
        """Return the average precision over all relevant documents, 0 for those not found (`map_cut`)."""
        import numpy as np

        hits = self.grades[:, :k] > 0
        precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
        average: Values = (precision * hits).sum(axis=1) / self.relevant
        return average


def _discounted(grades: Values) -> Values:
    import numpy as np

    gain: Values = (grades / np.log2(np.arange(2, grades.shape[1] + 2))).sum(axis=1)
    return gain
