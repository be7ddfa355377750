"""Search of encoded texts by the encoder's similarity, and the cost of the search.

The texts of an encoder that names no similarity (`None`) are compared by cosine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import attrs
from sentbed.protocols import Output, Similarity, Vectors
from sentbed_common import in_blocks, nearest, short_text, unit_rows

from sentbed_evaluators.cosine_correlation import nonzero

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentbed_common import Encoded

ALL_OUTPUTS: frozenset[Output] = frozenset({"vector", "tokens", "sparse"})
"""All outputs of poolers. An evaluator that only compares texts by the encoder's similarity can read all of
them."""


SPARSE_BYTES = 8
"""Number of bytes of a component of a sparse vector: its index in int32 and its value in float32."""

BYTES = "bytes-per-document"
OPERATIONS = "operations-per-pair"
COST_UNITS = {BYTES: "bytes", OPERATIONS: "operations"}
"""Units of the costs of exact search."""


def is_cosine(
    similarity: Similarity | None,
    default: Literal["cosine", "dot"] = "cosine",
) -> bool:
    """Whether texts are compared by cosine; `default` is the similarity that is used if `similarity` is None."""
    if similarity is None:
        return default == "cosine"
    return similarity.formula == "cosine"


def zero_remarks(
    similarity: Similarity | None,
    rows: Encoded,
    texts: Sequence[str],
) -> str:
    """Return a note on zero vectors; empty if there are none, or the similarity is not the cosine."""
    import numpy as np

    if not is_cosine(similarity) or isinstance(rows, list):
        return ""
    is_zero = ~rows.any(axis=1)
    if not is_zero.any():
        return ""
    first = short_text(texts[int(np.argmax(is_zero))])

    return f"{is_zero.sum()} zero vectors, whose cosine counts as 0, the first that of {first!r}"


def most_similar(
    similarity: Similarity | None,
    queries: Encoded,
    documents: Iterable[Encoded],
    k: int,
    default: Literal["cosine", "dot"] = "cosine",
) -> NDArray[np.int64]:
    """Return the places of the `k` documents that are most similar to each query, the most similar one first.

    `documents` yields consecutive blocks. The result is `(queries, min(k, documents))`. Of documents with equal
    similarity, the earlier one is first; by cosine and dot product, equal vectors always have equal similarities.
    `default` is the similarity that is used if `similarity` is None.
    """
    formula = default if similarity is None else similarity.formula
    if similarity is None or formula is not None:
        blocks = (_scaled(block, formula) for block in documents)
        return nearest(_scaled(queries, formula), blocks, k).places
    from sentbed_evaluators._torch.similarities import best_documents

    return best_documents(similarity, queries, documents, k)


def in_parts(texts: Encoded) -> Iterator[Encoded]:
    """Yield encoded texts in blocks; texts with a vector for each token are one block."""
    if isinstance(texts, list):
        yield texts
    else:
        yield from in_blocks(texts)


def searchable(
    vectors: Vectors,
    name: str,
    by_cosine: bool,
) -> Encoded:
    """Return the encoded texts of the list `name`.

    Raises `RunError` if texts are compared by cosine and a vector is zero.
    """
    if by_cosine and vectors.output != "tokens":
        return nonzero(vectors, name)
    texts: Encoded = vectors[name]
    return texts


def number_of_vectors(texts: Encoded) -> int:
    """Return the total number of vectors of the texts."""
    if isinstance(texts, list):
        return sum(map(len, texts))
    return len(texts)


def width_of(texts: Encoded) -> int:
    """Return the width of the vectors of texts."""
    if isinstance(texts, list):
        return int(texts[0].shape[1])
    return int(texts.shape[1])


@attrs.define(eq=False)
class DocumentSize:
    """Numbers of the documents that a search goes through, and of their vectors and components."""

    output: Output
    documents: int = 0
    vectors: int = 0
    """Number of vectors of all documents; if each token has a vector, the number of tokens."""
    active: NDArray[np.int64] | None = None
    """For sparse vectors: number of documents in which each component is not 0, `(width,)`."""

    def add(self, block: Encoded) -> None:
        """Add a block of documents to the numbers."""
        self.documents += len(block)
        self.vectors += number_of_vectors(block)
        if self.output == "sparse" and not isinstance(block, list):
            active = (block != 0).sum(axis=0)
            if self.active is not None:
                active = self.active + active
            self.active = active


def search_cost(queries: Encoded, size: DocumentSize) -> dict[str, float]:
    """Return the mean number of bytes of a document, and of operations of a query and a document, by name.

    The operations are those of a dot product of each pair of vectors.
    """
    if size.active is not None and not isinstance(queries, list):
        of_documents = size.active / size.documents
        of_queries = (queries != 0).mean(axis=0)
        return {
            BYTES: SPARSE_BYTES * float(of_documents.sum()),
            OPERATIONS: 2 * float(of_queries @ of_documents),
        }
    width = width_of(queries)
    of_query = number_of_vectors(queries) / len(queries)
    of_document = size.vectors / size.documents
    return {
        BYTES: 4.0 * width * of_document,
        OPERATIONS: 2.0 * width * of_query * of_document,
    }


def _scaled(vectors: Encoded, formula: str | None) -> NDArray[np.float32]:
    """Return vectors whose dot products are the similarities; `formula` is `cosine` or `dot`."""
    assert not isinstance(vectors, list), "no formula compares token vectors"
    if formula == "cosine":
        return unit_rows(vectors)
    return vectors
