"""Exact search for nearest neighbours, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from sentbed import RunError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]
    Places: TypeAlias = NDArray[np.int64]
    Similarities: TypeAlias = NDArray[np.float64]

DOCUMENT_BLOCK = 65_536
"""Documents encoded, or compared with queries, at a time."""
_QUERIES = 128
"""Queries compared at a time: 32 MiB of products with one chunk."""
_SPARE = 8
"""Candidates beyond the k best: the order of products may differ between float32 and float64. If more
documents than these agree to float32's rounding (1e-7), one of them may replace another."""
_GATHERED = 4096
"""Candidates whose products are taken in float64 at a time."""
_NONE = -1
"""Stands for a document where a query has fewer neighbours than others."""


@attrs.frozen(eq=False)
class Neighbours:
    """The nearest documents of each query, the nearest first."""

    places: Places
    """`(queries, min(k, documents))`: indices of documents; -1 where all others are excluded."""
    similarities: Similarities
    """`(queries, min(k, documents))`: their products with the query, descending; -inf where the place is
    -1."""


def nearest(
    queries: Vectors,
    documents: Iterable[Vectors],
    k: int,
    *,
    excluded: Places | None = None,
    query_block: int = _QUERIES,
    document_block: int = DOCUMENT_BLOCK,
) -> Neighbours:
    """Return the `k` documents with the highest dot product for each query.

    `queries` is `(n, width)`; `documents` yields consecutive arrays `(m, width)`, of which one is held at a
    time. `excluded` is `(pairs, 2)`: a query and a document that is none of its neighbours. Candidates are
    found in float32, then ordered by their products in float64, summed in the same way for each document:
    equal vectors have equal products, whatever the blocks. Of equal products, the earlier document is first.

    Raises:
        RunError: if queries and documents differ in width.
    """
    import numpy as np

    starts = range(0, len(queries), query_block)
    best = {
        start: _nothing(len(queries[start : start + query_block])) for start in starts
    }
    pairs = _by_query(excluded, starts, query_block)

    seen = 0
    for block in documents:
        for chunk in in_blocks(block, document_block):
            _require_same_width(queries, chunk)
            longest = float(
                np.sqrt(np.einsum("ij,ij->i", chunk, chunk, dtype=np.float64).max())
            )
            for start in starts:
                rows = queries[start : start + query_block]
                products = rows @ chunk.T
                out = pairs[start]
                out = out[(out[:, 1] >= seen) & (out[:, 1] < seen + len(chunk))]
                products[out[:, 0] - start, out[:, 1] - seen] = -np.inf

                candidates = _candidates(
                    products, k + _SPARE, _limits(best[start], k, rows, longest)
                )
                neighbours = _with_exact_products(rows, chunk, *candidates, seen)
                best[start] = _merge(best[start], neighbours, k)
            seen += len(chunk)

    parts = list(best.values()) or [_nothing(0)]
    most = min(k, seen)
    return Neighbours(
        np.concatenate([_padded(part.places, most, _NONE) for part in parts]),
        np.concatenate([_padded(part.similarities, most, -np.inf) for part in parts]),
    )


def in_blocks(vectors: Vectors, size: int = DOCUMENT_BLOCK) -> Iterator[Vectors]:
    """Yield the rows in order, `size` at a time."""
    for start in range(0, len(vectors), size):
        yield vectors[start : start + size]


def unit_rows(vectors: Vectors) -> Vectors:
    """Return the rows, none of them zero, divided by their L2 norms: their products are cosines."""
    import numpy as np

    result = np.empty(vectors.shape, dtype=np.float32)
    for start in range(0, len(vectors), DOCUMENT_BLOCK):
        rows = vectors[start : start + DOCUMENT_BLOCK]
        norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        result[start : start + DOCUMENT_BLOCK] = rows / norms

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


def _by_query(
    excluded: Places | None, starts: range, query_block: int
) -> dict[int, Places]:
    """Return the excluded pairs of each block of queries, by its first query."""
    import numpy as np

    pairs = np.empty((0, 2), np.int64) if excluded is None else excluded
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    return {
        start: pairs[slice(*np.searchsorted(pairs[:, 0], (start, start + query_block)))]
        for start in starts
    }


def _limits(best: Neighbours, k: int, queries: Vectors, longest: float) -> Vectors:
    """Return the product in float32 below which no document is among the `k` best, `(queries,)`.

    A product of float32 differs from the exact one by at most width x 2^-24 x both norms.
    """
    import numpy as np

    if best.places.shape[1] < k:
        return np.full(len(queries), -np.inf, np.float32)

    norms = np.linalg.norm(queries.astype(np.float64), axis=1)
    error = 1.01 * queries.shape[1] * 2.0**-24 * norms * longest
    limits: Vectors = (best.similarities[:, -1] - error).astype(np.float32)
    # Rounded down; `-inf`, where fewer than `k` were found, stays what it is.
    np.nextafter(limits, np.float32(-np.inf), out=limits)
    return limits


def _candidates(
    products: Vectors, count: int, limits: Vectors
) -> tuple[Places, Places]:
    """Return rows and columns of each row's `count` highest products from its limit on, row by row.

    Of ties, the first ones.
    """
    import numpy as np

    # Most products of later chunks are below the limit: to compare is cheaper than to sort.
    above = products >= limits[:, None]
    above &= products > -np.inf
    for row in np.flatnonzero(np.count_nonzero(above, axis=1) > count):
        values = products[row]
        limit = np.partition(values, -count)[-count]
        better, equal = np.flatnonzero(values > limit), np.flatnonzero(values == limit)
        above[row] = False
        above[row, better] = True
        above[row, equal[: count - len(better)]] = True

    rows, columns = np.nonzero(above)
    return rows, columns


def _with_exact_products(
    queries: Vectors, documents: Vectors, rows: Places, columns: Places, seen: int
) -> Neighbours:
    """Return candidates as a table, `(queries, most of a query)`, with their products in float64."""
    import numpy as np

    products = np.empty(len(rows))
    for start in range(0, len(rows), _GATHERED):
        part = slice(start, start + _GATHERED)
        # By sums of rows: a matrix product may round the same vector differently elsewhere.
        products[part] = (
            documents[columns[part]].astype(np.float64) * queries[rows[part]]
        ).sum(axis=1)

    counts = np.bincount(rows, minlength=len(queries))
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)

    shape = len(queries), int(counts.max(initial=0))
    places, similarities = np.full(shape, _NONE), np.full(shape, -np.inf)
    places[rows, within] = columns + seen
    similarities[rows, within] = products
    return Neighbours(places, similarities)


def _padded(values: NDArray[Any], width: int, fill: float) -> NDArray[Any]:
    import numpy as np

    return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=fill)


def _merge(first: Neighbours, second: Neighbours, k: int) -> Neighbours:
    import numpy as np

    places = np.concatenate([first.places, second.places], axis=1)
    similarities = np.concatenate([first.similarities, second.similarities], axis=1)
    order = np.lexsort((places, -similarities), axis=1)[:, :k]
    return Neighbours(
        np.take_along_axis(places, order, axis=1),
        np.take_along_axis(similarities, order, axis=1),
    )
