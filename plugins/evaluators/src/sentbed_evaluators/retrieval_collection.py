"""Queries, documents and relevance judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs


@attrs.frozen(eq=False)
class Collection:
    """The data of a retrieval task, in which documents are numbered."""

    queries: Sequence[str]
    documents: Sequence[str]
    relevant: Sequence[Mapping[int, int]]
    """For each query, at least one document and its grade (> 0). A number beyond the documents is that of a
    judged document that is missing."""
    own_documents: Sequence[int]
    """For each query, the document to leave out of its results, -1 if there is none."""
    protocol: Mapping[str, Any]
    """Description of the data, for the protocol."""
    note: str = ""
    """Note on the scores, or empty."""


def of_pairs(
    first: Sequence[str], second: Sequence[str], about: Mapping[str, Any]
) -> Collection:
    """Make each first sentence a query for its own second sentence.

    Equal texts are merged: a query in several pairs has several relevant documents, and a document may be
    relevant to several queries. `about` describes the pairs in the protocol.
    """
    queries: dict[str, dict[int, int]] = {}
    documents: dict[str, int] = {}
    for query, document in zip(first, second, strict=True):
        queries.setdefault(query, {})[
            documents.setdefault(document, len(documents))
        ] = 1
    protocol = {
        "id": "pair-retrieval",
        "pairs": len(first),
        "duplicates": "merged by text",
        **about,
    }
    return Collection(
        tuple(queries),
        tuple(documents),
        tuple(queries.values()),
        [-1] * len(queries),
        protocol,
    )
