"""Queries, documents and relevance judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from sentbed import DataError


@attrs.frozen(eq=False)
class Collection:
    """The data of a retrieval task, in which documents are numbered."""

    queries: Sequence[str]
    documents: Sequence[str]
    relevant: Sequence[Mapping[int, int]]
    """For each query, its relevant documents with their grades (> 0), at least one. A number beyond
    `documents` is a judged document that is missing from the corpus."""
    own_documents: Sequence[int]
    """For each query, the document to leave out of its results; -1 for none."""
    protocol: Mapping[str, Any]
    """Description of the data, for the protocol."""
    note: str = ""
    """Note on the scores, or empty."""


def of_pairs(
    first: Sequence[str],
    second: Sequence[str],
    about: Mapping[str, Any],
    is_relevant: Sequence[bool] | None = None,
) -> Collection:
    """Make each first sentence a query, to which its second sentence is relevant if `is_relevant` says so.

    By default, all are relevant. Equal texts are merged: a query in several pairs has several relevant
    documents, and a document may be relevant to several queries. A query without a relevant document is left
    out, and counted in the protocol. `about` describes the pairs there. Raises `DataError` if no pair is
    relevant.
    """
    queries: dict[str, dict[int, int]] = {}
    documents: dict[str, int] = {}
    if is_relevant is None:
        is_relevant = [True] * len(first)
    for query, document, relevant in zip(first, second, is_relevant, strict=True):
        place = documents.setdefault(document, len(documents))
        judged = queries.setdefault(query, {})
        if relevant:
            judged[place] = 1
    without = [query for query, relevant in queries.items() if not relevant]
    for query in without:
        del queries[query]
    if not queries:
        raise DataError(
            "no label of a pair is above 0, so that no document is relevant; check `label`"
        )
    if without:
        about = {**about, "queries without a relevant document": len(without)}
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
