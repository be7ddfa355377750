"""Exact search for nearest neighbours, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed import RunError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]
    Places: TypeAlias = NDArray[np.int64]
    Similarities: TypeAlias = NDArray[np.float64]

DOCUMENT_BLOCK = 65_536
"""Number of documents encoded, or compared with queries, at a time."""
_QUERY_BLOCK = 128
"""Number of queries compared at a time: with one block of documents, 32 MiB of products."""
_SPARE = 8
"""Number of candidates beyond `k` whose products are computed again in float64, since float32 may order them
wrongly. If the products of more than `_SPARE` further documents differ from the k-th by less than the rounding
of float32 (1e-7), a slightly worse document may be returned in place of a better one."""
_NO_DOCUMENT = -1
"""Index that fills up the row of a query with fewer neighbours than other queries: it stands for no document."""


@attrs.frozen(eq=False)
class Neighbours:
    """The nearest documents of each query, the nearest first."""

    places: Places
    """`(queries, min(k, documents))`: indices of documents. -1 stands for no document, in the row of a query
    for which so many documents are excluded that fewer remain."""
    similarities: Similarities
    """`(queries, min(k, documents))`: dot products of these documents with the query, descending; -inf where
    the index is -1."""


def nearest(
    queries: Vectors,
    documents: Iterable[Vectors],
    k: int,
    *,
    excluded: Places | None = None,
) -> Neighbours:
    """Return the `k` documents with the highest dot product for each query.

    `queries` is `(n, width)`. `documents` yields consecutive blocks `(m, width)`; only one block is held at a
    time. Each row of `excluded`, `(pairs, 2)`, has the index of a query and the index of a document that must
    not be among the query's neighbours.

    Candidates are found in float32, then ordered by their products in float64. The products are summed in the
    same way for every document: equal vectors have equal products, whatever the sizes of blocks. Of documents
    with equal products, the earlier one is first.

    Raises:
        RunError: if queries and documents differ in width.
    """
    import numpy as np

    places = [np.empty(0, np.int64) for _ in queries]
    products = [np.empty(0) for _ in queries]
    # As many documents as are wanted are at least as near as this.
    limits = np.full(len(queries), np.finfo(np.float32).min)
    if excluded is None:
        excluded = np.empty((0, 2), np.int64)
    excluded = excluded[np.argsort(excluded[:, 0])]

    seen = 0
    for block in documents:
        _require_same_width(queries, block)
        for start in range(0, len(queries), _QUERY_BLOCK):
            rows = queries[start : start + _QUERY_BLOCK]
            rounded = rows @ block.T

            ends = np.searchsorted(excluded[:, 0], (start, start + len(rows)))
            pairs = excluded[ends[0] : ends[1]] - np.array([start, seen])
            pairs = pairs[(pairs[:, 1] >= 0) & (pairs[:, 1] < len(block))]
            rounded[pairs[:, 0], pairs[:, 1]] = -np.inf

            for query, of_query in enumerate(rounded, start):
                near = np.flatnonzero(of_query >= limits[query])
                if len(near) > k + _SPARE:
                    near = _highest(of_query, near, k + _SPARE)
                    limits[query] = of_query[near].min()
                # Summed row by row: a matrix product may round equal vectors differently at different positions.
                exact = (block[near].astype(np.float64) * queries[query]).sum(axis=1)
                all_places = np.concatenate([places[query], near + seen])
                all_products = np.concatenate([products[query], exact])
                order = np.lexsort((all_places, -all_products))[:k]
                places[query] = all_places[order]
                products[query] = all_products[order]
        seen += len(block)

    shape = len(queries), min(k, seen)
    neighbours = Neighbours(np.full(shape, _NO_DOCUMENT), np.full(shape, -np.inf))
    for query, of_query in enumerate(places):
        neighbours.places[query, : len(of_query)] = of_query
        neighbours.similarities[query, : len(of_query)] = products[query]

    return neighbours


def _highest(values: Vectors, places: Places, count: int) -> Places:
    """Return the `count` of `places` with the highest values; of equal values, the earlier ones."""
    import numpy as np

    of_places = values[places]
    limit = np.partition(of_places, -count)[-count]
    better = places[of_places > limit]
    equal = places[of_places == limit]

    return np.concatenate([better, equal[: count - len(better)]])


def in_blocks(vectors: Vectors, size: int = DOCUMENT_BLOCK) -> Iterator[Vectors]:
    """Yield the rows in order, `size` at a time."""
    for start in range(0, len(vectors), size):
        yield vectors[start : start + size]


def unit_rows(vectors: Vectors) -> Vectors:
    """Return the rows divided by their L2 norms, so that their dot products are cosines. No row may be zero."""
    import numpy as np

    result = np.empty(vectors.shape, dtype=np.float32)
    for start in range(0, len(vectors), DOCUMENT_BLOCK):
        rows = vectors[start : start + DOCUMENT_BLOCK]
        norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        result[start : start + DOCUMENT_BLOCK] = rows / norms

    return result


def _require_same_width(queries: Vectors, documents: Vectors) -> None:
    """Raise `RunError` if queries and documents differ in width."""
    if queries.shape[1] != documents.shape[1]:
        raise RunError(
            f"the encoder of the first side gives vectors of width {queries.shape[1]}, that of the second "
            f"one of width {documents.shape[1]}, which cannot be compared; "
            f"give both heads the same `projection`"
        )
