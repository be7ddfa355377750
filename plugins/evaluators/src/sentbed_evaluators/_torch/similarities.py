"""Search, block by block, for the most similar documents by a similarity that is a function of tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed.protocols import Similarity
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
    places = np.empty((count, 0), np.int64)
    values = np.empty((count, 0), np.float32)
    seen = 0
    for block in documents:
        products_of_document = QUERY_BLOCK * _longest(queries) * _longest(block)
        size = min(LARGEST_DOCUMENT_BLOCK, PRODUCTS // products_of_document)
        size = max(size, 1)
        for start in range(0, len(block), size):
            part = block[start : start + size]
            places_of_part = np.tile(np.arange(seen, seen + len(part)), (count, 1))
            places = np.concatenate([places, places_of_part], axis=1)
            similarities = _similarities(similarity, queries, part)
            values = np.concatenate([values, similarities], axis=1)
            order = np.lexsort((places, -values), axis=1)[:, :k]
            places = np.take_along_axis(places, order, axis=1)
            values = np.take_along_axis(values, order, axis=1)
            seen += len(part)

    return places


def _similarities(
    similarity: Similarity,
    queries: Encoded,
    documents: Encoded,
) -> NDArray[np.float32]:
    """Return the similarity of each query and each document, `(queries, documents)`."""
    normalized = similarity.normalize(tensors_of(documents, torch.float32))
    blocks = []
    for start in range(0, len(queries), QUERY_BLOCK):
        rows = tensors_of(queries[start : start + QUERY_BLOCK], torch.float32)
        with torch.no_grad():
            block = similarity.similarity(similarity.normalize(rows), normalized)
        blocks.append(block.numpy())
    return np.concatenate(blocks)


def _longest(texts: Encoded) -> int:
    """Return the largest number of vectors of a text."""
    if isinstance(texts, list):
        return max(map(len, texts))
    return 1
