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
"""Number of documents encoded, or compared with queries, at a time."""
_QUERY_BLOCK = 128
"""Number of queries compared at a time: with one block of documents, 32 MiB of products."""
_SPARE = 8
"""Number of candidates beyond `k` whose products are computed again in float64, since float32 may order them
wrongly. If the products of more than `_SPARE` further documents differ from the k-th by less than the rounding
of float32 (1e-7), a slightly worse document may be returned in place of a better one."""
_PRODUCTS = 4096
"""Number of candidates whose products are computed in float64 at a time."""
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
    query_block: int = _QUERY_BLOCK,
    document_block: int = DOCUMENT_BLOCK,
) -> Neighbours:
    """Return the `k` documents with the highest dot product for each query.

    `queries` is `(n, width)`. `documents` yields consecutive arrays `(m, width)`; only one array is held at a
    time. Each row of `excluded`, `(pairs, 2)`, has the index of a query and the index of a document that must
    not be among the query's neighbours.

    Candidates are found in float32, then ordered by their products in float64. The products are summed in the
    same way for every document: equal vectors have equal products, whatever the sizes of blocks. Of documents
    with equal products, the earlier one is first.

    Raises:
        RunError: if queries and documents differ in width.
    """
    import numpy as np

    starts = range(0, len(queries), query_block)
    best = {}
    limits = {}
    for start in starts:
        count = len(queries[start : start + query_block])
        best[start] = Neighbours(np.empty((count, 0), np.int64), np.empty((count, 0)))
        limits[start] = np.full(count, -np.inf, np.float32)

    if excluded is None:
        excluded = np.empty((0, 2), np.int64)
    # In the order of their queries, so that the pairs of a block of queries are beside each other.
    excluded_queries, excluded_places = excluded[np.argsort(excluded[:, 0])].T.copy()

    seen = 0
    for block in documents:
        for chunk in in_blocks(block, document_block):
            _require_same_width(queries, chunk)
            for start in starts:
                rows = queries[start : start + query_block]
                products = rows @ chunk.T

                end = start + query_block
                first, last = np.searchsorted(excluded_queries, (start, end))
                row = excluded_queries[first:last] - start
                place = excluded_places[first:last] - seen
                is_in_chunk = (place >= 0) & (place < len(chunk))
                products[row[is_in_chunk], place[is_in_chunk]] = -np.inf

                candidates = _candidates(products, k + _SPARE, limits[start])
                neighbours = _with_exact_products(rows, chunk, *candidates, seen)
                best[start] = _merge(best[start], neighbours, k)

            seen += len(chunk)

    return _concatenated(best.values(), min(k, seen))


def _concatenated(blocks: Iterable[Neighbours], width: int) -> Neighbours:
    """Return the neighbours of all blocks of queries, padded to `width` neighbours per query."""
    import numpy as np

    # If there are no queries, only these empty arrays are concatenated.
    places = [np.empty((0, width), np.int64)]
    similarities = [np.empty((0, width))]
    for block in blocks:
        places.append(_padded(block.places, width, _NO_DOCUMENT))
        similarities.append(_padded(block.similarities, width, -np.inf))

    return Neighbours(np.concatenate(places), np.concatenate(similarities))


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


def _candidates(
    products: Vectors,
    count: int,
    limits: Vectors,
) -> tuple[Places, Places]:
    """Return the rows and columns of the candidates, row by row, and raise the limits of the rows.

    In each row, they are the `count` highest products; products below the row's limit are no candidates, since
    as many in earlier chunks are higher. Of equal products, those in the earlier columns are taken.
    """
    import numpy as np

    # In later chunks, most products are below the limit, and comparing is cheaper than sorting.
    above = products >= limits[:, None]
    above &= products > -np.inf
    for row in np.flatnonzero(np.count_nonzero(above, axis=1) > count):
        values = products[row]
        limit = np.partition(values, -count)[-count]
        better = np.flatnonzero(values > limit)
        equal = np.flatnonzero(values == limit)

        above[row] = False
        above[row, better] = True
        above[row, equal[: count - len(better)]] = True
        limits[row] = limit

    rows, columns = np.nonzero(above)
    return rows, columns


def _with_exact_products(
    queries: Vectors,
    documents: Vectors,
    rows: Places,
    columns: Places,
    seen: int,
) -> Neighbours:
    """Return the candidates as neighbours, with dot products in float64.

    `rows` and `columns` are the result of `_candidates`; `seen` is the number of documents before `documents`.
    The arrays are `(queries, largest number of candidates of a query)`.
    """
    import numpy as np

    products = np.empty(len(rows))
    for start in range(0, len(rows), _PRODUCTS):
        part = slice(start, start + _PRODUCTS)
        # Summed row by row: a matrix product may round equal vectors differently at different positions.
        wide = documents[columns[part]].astype(np.float64)
        products[part] = (wide * queries[rows[part]]).sum(axis=1)

    counts = np.bincount(rows, minlength=len(queries))
    first_of_query = np.cumsum(counts) - counts
    rank_in_query = np.arange(len(rows)) - np.repeat(first_of_query, counts)

    shape = len(queries), int(counts.max(initial=0))
    places = np.full(shape, _NO_DOCUMENT)
    similarities = np.full(shape, -np.inf)
    places[rows, rank_in_query] = columns + seen
    similarities[rows, rank_in_query] = products
    return Neighbours(places, similarities)


def _padded(
    values: NDArray[Any],
    width: int,
    fill: float,
) -> NDArray[Any]:
    """Return `values` widened to `width` columns, which are filled with `fill`."""
    import numpy as np

    missing = width - values.shape[1]
    padding = ((0, 0), (0, missing))
    return np.pad(values, padding, constant_values=fill)


def _merge(
    first: Neighbours,
    second: Neighbours,
    k: int,
) -> Neighbours:
    """Return the `k` nearest documents of each query among those of two searches."""
    import numpy as np

    places = np.concatenate([first.places, second.places], axis=1)
    similarities = np.concatenate([first.similarities, second.similarities], axis=1)
    order = np.lexsort((places, -similarities), axis=1)[:, :k]
    return Neighbours(
        np.take_along_axis(places, order, axis=1),
        np.take_along_axis(similarities, order, axis=1),
    )
