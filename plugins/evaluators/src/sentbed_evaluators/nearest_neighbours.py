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

CHUNK = 65_536
"""Documents encoded, or compared with queries, at a time."""
_QUERIES = 128
"""Queries compared at a time: 32 MiB of products with one chunk."""
_SPARE = 8
"""Candidates beyond the k best: the order of products may differ between float32 and float64. If more
documents than these agree to float32's rounding (1e-7), one of them may replace another."""


@attrs.frozen(eq=False)
class Neighbours:
    """The nearest documents of each query, the nearest first."""

    places: Places
    """`(queries, min(k, documents))`: indices of documents."""
    similarities: Similarities
    """`(queries, min(k, documents))`: their products with the query, descending."""


def nearest(
    queries: Vectors,
    documents: Iterable[Vectors],
    k: int,
    *,
    query_block: int = _QUERIES,
    document_block: int = CHUNK,
) -> Neighbours:
    """Return the `k` documents with the highest dot product for each query.

    `queries` is `(n, width)`; `documents` yields consecutive arrays `(m, width)`, of which one is held at a
    time. Candidates are found in float32, then ordered by their products in float64, summed in the same way
    for each document: equal vectors have equal products, whatever the blocks. Of equal products, the earlier
    document is first.

    Raises:
        RunError: if queries and documents differ in width.
    """
    import numpy as np

    starts = range(0, len(queries), query_block)
    best = {start: _nothing(len(queries[start : start + query_block])) for start in starts}
    seen = 0
    for given in documents:
        for chunk in in_blocks(given, document_block):
            _require_same_width(queries, chunk)
            for start in starts:
                rows = queries[start : start + query_block]
                places = _candidates(rows @ chunk.T, k + _SPARE)
                found = Neighbours(places + seen, _products(rows, chunk, places))
                best[start] = _merge(best[start], found, k)
            seen += len(chunk)
    parts = list(best.values()) or [_nothing(0)]
    return Neighbours(
        np.concatenate([part.places for part in parts]),
        np.concatenate([part.similarities for part in parts]),
    )


def in_blocks(vectors: Vectors, size: int = CHUNK) -> Iterator[Vectors]:
    """Yield the rows in order, `size` at a time."""
    for start in range(0, len(vectors), size):
        yield vectors[start : start + size]


def unit(vectors: Vectors) -> Vectors:
    """Return the rows, none of them zero, divided by their L2 norms: their products are cosines."""
    import numpy as np

    result = np.empty(vectors.shape, dtype=np.float32)
    for start in range(0, len(vectors), CHUNK):
        rows = vectors[start : start + CHUNK]
        norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        result[start : start + CHUNK] = rows / norms
    return result


def _require_same_width(queries: Vectors, documents: Vectors) -> None:
    if queries.shape[1] != documents.shape[1]:
        raise RunError(
            f"the encoder of the first side gives vectors of width {queries.shape[1]}, that of the second "
            f"one of width {documents.shape[1]}, which cannot be compared; "
            f"give both heads the same `projection`"
        )


def _nothing(rows: int) -> Neighbours:
    import numpy as np

    return Neighbours(np.empty((rows, 0), dtype=np.int64), np.empty((rows, 0)))


def _candidates(products: Vectors, count: int) -> Places:
    """Return the columns of each row's `count` highest products, in any order; of ties, the first ones."""
    import numpy as np

    if count >= products.shape[1]:
        return np.tile(np.arange(products.shape[1]), (len(products), 1))
    places: Places = np.argpartition(products, -count, axis=1)[:, -count:]
    limits = np.take_along_axis(products, places, axis=1).min(axis=1)
    tied = np.flatnonzero((products >= limits[:, None]).sum(axis=1) > count)
    for row in tied:
        above = np.flatnonzero(products[row] > limits[row])
        equal = np.flatnonzero(products[row] == limits[row])
        places[row] = np.concatenate([above, equal[: count - len(above)]])
    return places


def _products(queries: Vectors, documents: Vectors, places: Places) -> Similarities:
    import numpy as np

    result = np.empty(places.shape)
    # One query at a time, by sums of rows: a matrix product may round the same vector differently elsewhere.
    for row, found in enumerate(places):
        result[row] = (documents[found].astype(np.float64) * queries[row]).sum(axis=1)
    return result


def _merge(one: Neighbours, other: Neighbours, k: int) -> Neighbours:
    import numpy as np

    places = np.concatenate([one.places, other.places], axis=1)
    similarities = np.concatenate([one.similarities, other.similarities], axis=1)
    order = np.lexsort((places, -similarities), axis=1)[:, :k]
    return Neighbours(
        np.take_along_axis(places, order, axis=1), np.take_along_axis(similarities, order, axis=1)
    )
