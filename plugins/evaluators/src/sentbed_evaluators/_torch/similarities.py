"""Search, block by block, for the most similar documents by a similarity that is a function of tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed.protocols import RaggedVectors, Similarity
from sentbed_common import tensors_of

if TYPE_CHECKING:
    from sentbed_common import Encoded

Places: TypeAlias = NDArray[np.int64]

QUERY_BLOCK = 32
"""Number of queries that are compared with documents at a time."""
PRODUCTS = 1 << 24
"""Largest number of dot products, of a query's vector and a document's vector, in memory at a time: 64 MiB in
float32."""
LARGEST_DOCUMENT_BLOCK = 4096
"""Largest number of documents that are compared with queries at a time."""


def best_documents(
    similarity: Similarity,
    queries: Encoded,
    documents: Iterable[Encoded],
    k: int,
) -> Places:
    """Return the places of the `k` documents most similar to each query, the best first.

    `documents` yields consecutive blocks. The result is `(queries, min(k, documents))`. Similarities are float32
    numbers. Of documents with equal similarity, the earlier one is first.
    """
    count = len(queries)
    places, values = np.empty((count, 0), np.int64), np.empty((count, 0), np.float32)
    documents_so_far = 0
    for block in documents:
        places_in_block, values_of_block = _best_of_block(similarity, queries, block, k)
        places_of_block = places_in_block + documents_so_far
        places = np.concatenate([places, places_of_block], axis=1)
        values = np.concatenate([values, values_of_block], axis=1)
        places, values = _highest(places, values, k)
        documents_so_far += len(block)
    return places


def _best_of_block(
    similarity: Similarity,
    queries: Encoded,
    documents: Encoded,
    k: int,
) -> tuple[Places, NDArray[np.float32]]:
    """Return the places, in a block, of the `k` documents most similar to each query, and the similarities."""
    lengths = _lengths(documents)
    # A part has documents of similar length, so that little is padded.
    order = np.argsort(lengths, kind="stable")
    cuts = _cuts(lengths[order], int(_lengths(queries).max()))
    parts = []
    for part in np.split(order, cuts):
        tensors = tensors_of(documents[part], torch.float32)
        parts.append((part, similarity.normalize(tensors)))

    all_places, all_values = [], []
    for start in range(0, len(queries), QUERY_BLOCK):
        block = queries[start : start + QUERY_BLOCK]
        count = len(block)
        tensors = similarity.normalize(tensors_of(block, torch.float32))
        places = np.empty((count, 0), np.int64)
        values = np.empty((count, 0), np.float32)
        for part, part_tensors in parts:
            with torch.no_grad():
                scores = similarity.similarity(tensors, part_tensors).numpy()
            places = np.concatenate([places, np.tile(part, (count, 1))], axis=1)
            values = np.concatenate([values, scores], axis=1)
            places, values = _highest(places, values, k)
        all_places.append(places)
        all_values.append(values)
    return np.concatenate(all_places), np.concatenate(all_values)


def _highest(
    places: Places,
    values: NDArray[np.float32],
    k: int,
) -> tuple[Places, NDArray[np.float32]]:
    """Return the places and values of the `k` highest values in each row, the highest first.

    Of equal values, the one with the lower place is first.
    """
    order = np.lexsort((places, -values), axis=1)[:, :k]
    highest = np.take_along_axis(values, order, axis=1)
    return np.take_along_axis(places, order, axis=1), highest


def _cuts(lengths: Places, query_length: int) -> list[int]:
    """Return the places at which documents, sorted by length, are cut into parts.

    The vectors of a block of queries and of a part have at most `PRODUCTS` dot products, unless the part is a
    single document.
    """
    cuts = []
    start = 0
    for place, length in enumerate(lengths.tolist()):
        count = place - start + 1
        products = QUERY_BLOCK * query_length * count * length
        if count > 1 and (products > PRODUCTS or count > LARGEST_DOCUMENT_BLOCK):
            cuts.append(place)
            start = place
    return cuts


def _lengths(texts: Encoded) -> Places:
    """Return the number of vectors of each text, at least 1."""
    if isinstance(texts, RaggedVectors):
        return np.maximum(texts.lengths, 1)
    return np.ones(len(texts), np.int64)
