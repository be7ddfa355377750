"""Queries, documents, and which documents are relevant to which query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs


@attrs.frozen(eq=False)
class Collection:
    """What a retrieval task consists of; a document goes by its number."""

    queries: Sequence[str]
    documents: Sequence[str]
    relevant: Sequence[Mapping[int, int]]
    """For each query, at least one document and its grade (> 0). A number that no document has is that of one
    that was judged and is not there."""
    own: Sequence[int]
    """For each query, the document that is not to be found by it, -1 where there is none."""
    protocol: Mapping[str, Any]
    """What these are."""
    note: str = ""
    """What is to be remarked on the scores."""


def of_pairs(first: Sequence[str], second: Sequence[str], about: Mapping[str, Any]) -> Collection:
    """Make each first sentence a query for its own second sentence.

    Equal texts are one: a query that stands in several pairs has several relevant documents, and a document
    may be relevant to several queries. `about` says in the protocol what the pairs are.
    """
    queries: dict[str, dict[int, int]] = {}
    documents: dict[str, int] = {}
    for query, document in zip(first, second, strict=True):
        queries.setdefault(query, {})[documents.setdefault(document, len(documents))] = 1
    protocol = {"id": "pair-retrieval", "pairs": len(first), "duplicates": "merged by text", **about}
    return Collection(
        tuple(queries), tuple(documents), tuple(queries.values()), [-1] * len(queries), protocol
    )
