"""The data of a retrieval task: queries, documents and relevance judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from sentbed import DataError


@attrs.frozen(eq=False)
class Collection:
    """Queries, documents and relevance judgements; a document is denoted by its index in `documents`."""

    queries: Sequence[str]
    documents: Sequence[str]
    relevant: Sequence[Mapping[int, int]]
    """For each query, the grades (> 0) of its relevant documents, at least one. An index beyond the end of
    `documents` denotes a relevant document that is missing from the corpus."""
    own_documents: Sequence[int]
    """For each query, the document that is left out of its ranking; -1 for none."""
    protocol: Mapping[str, Any]
    """Description of the data, for the protocol of a score."""
    note: str = ""
    """Note for all scores; empty for none."""


def of_pairs(
    first: Sequence[str],
    second: Sequence[str],
    about: Mapping[str, Any],
    is_relevant: Sequence[bool] | None = None,
) -> Collection:
    """Return the collection in which first sentences are queries, and second sentences are documents.

    The document of a pair is relevant to its query if `is_relevant` is true for the pair; by default, it is true
    for all pairs. Equal texts are merged: a query that is in several pairs may have several relevant documents,
    and a document may be relevant to several queries. Queries without a relevant document are left out and
    counted in the protocol. `about` has the entries of the protocol that describe the pairs.

    Raises:
        DataError: if no document is relevant.
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

    without_relevant = [query for query, judged in queries.items() if not judged]
    for query in without_relevant:
        del queries[query]

    if not queries:
        raise DataError(
            "no pair has a label above 0, so that no document is relevant; check `label`"
        )
    if without_relevant:
        count = len(without_relevant)
        about = {**about, "queries without a relevant document": count}
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
