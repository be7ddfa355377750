"""Similarities that are computed by the component's own functions of tensors, in blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed.protocols import RaggedVectors, Similarity
from sentbed_common import array_of, tensors_of

if TYPE_CHECKING:
    from sentbed_common import Encoded

Places: TypeAlias = NDArray[np.int64]

QUERIES = 32
"""Queries that are compared at a time."""
PRODUCTS = 1 << 24
"""Products of vectors that are held at a time: 64 MiB in float32."""
DOCUMENTS = 4096
"""Documents that are compared at a time, at most."""


def best_documents(
    similarity: Similarity, queries: Encoded, documents: Iterable[Encoded], k: int
) -> Places:
    """Return the places of the `k` documents most similar to each query, the best first.

    `documents` yields consecutive blocks, and the result is `(queries, min(k, documents))`. Similarities are
    of float32; of equal ones, the earlier document is first.
    """
    count = len(queries)
    places, values = np.empty((count, 0), np.int64), np.empty((count, 0), np.float32)
    seen = 0
    for block in documents:
        places_in_block, values_of_block = _best_of_block(similarity, queries, block, k)
        places = np.concatenate([places, places_in_block + seen], axis=1)
        values = np.concatenate([values, values_of_block], axis=1)
        places, values = _highest(places, values, k)
        seen += len(block)
    return places


def _best_of_block(
    similarity: Similarity, queries: Encoded, documents: Encoded, k: int
) -> tuple[Places, NDArray[np.float32]]:
    """Return places in a block of the documents most similar to each query, and their similarities."""
    lengths = _lengths(documents)
    # Documents of like length are padded to one that is little longer.
    order = np.argsort(lengths, kind="stable")
    parts = np.split(order, _cuts(lengths[order], int(_lengths(queries).max())))
    compared = [
        (part, similarity.normalize(tensors_of(documents[part], torch.float32)))
        for part in parts
    ]
    rows = []
    for start in range(0, len(queries), QUERIES):
        block = similarity.normalize(
            tensors_of(queries[start : start + QUERIES], torch.float32)
        )
        count = min(QUERIES, len(queries) - start)
        places, values = (
            np.empty((count, 0), np.int64),
            np.empty((count, 0), np.float32),
        )
        for part, ready in compared:
            with torch.no_grad():
                scores = similarity.similarity(block, ready)
            scores = array_of(scores, (count, len(part)), similarity, "similarity")
            places = np.concatenate([places, np.tile(part, (count, 1))], axis=1)
            values = np.concatenate([values, scores], axis=1)
            places, values = _highest(places, values, k)
        rows.append((places, values))
    all_places, all_values = zip(*rows, strict=True)
    return np.concatenate(all_places), np.concatenate(all_values)


def _highest(
    places: Places, values: NDArray[np.float32], k: int
) -> tuple[Places, NDArray[np.float32]]:
    """Return the `k` highest values of each row, descending, with their places; of ties the lower place."""
    order = np.lexsort((places, -values), axis=1)[:, :k]
    return (
        np.take_along_axis(places, order, axis=1),
        np.take_along_axis(values, order, axis=1),
    )


def _cuts(lengths: Places, query_length: int) -> list[int]:
    """Return where documents of these ascending lengths are cut into blocks for `PRODUCTS`."""
    cuts = []
    start = 0
    for place, length in enumerate(lengths.tolist()):
        count = place - start + 1
        products = QUERIES * query_length * count * length
        if count > 1 and (products > PRODUCTS or count > DOCUMENTS):
            cuts.append(place)
            start = place
    return cuts


def _lengths(texts: Encoded) -> Places:
    """Return the number of vectors of each text, at least 1."""
    if isinstance(texts, RaggedVectors):
        return np.maximum(texts.lengths, 1)
    return np.ones(len(texts), np.int64)
