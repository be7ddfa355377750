"""Similarities of text pairs, by the encoder's similarity component or, if it has none, by cosine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from sentbed.protocols import Similarity, TokenVectors, Vectors

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

Encoded: TypeAlias = "NDArray[np.float32] | list[NDArray[np.float32]]"
"""An encoder's output for texts: one vector for each text, or one vector for each token of each text."""

_BLOCK = 4096
"""Number of rows that are compared at a time."""
_PAIRS = 64
"""Number of pairs that a similarity component compares at a time."""


def pair_similarities(vectors: Vectors, name: str) -> NDArray[np.float64]:
    """Return the similarity of each text pair in the list `name` of `vectors`, `(n,)`.

    The first texts of the pairs are the list's first side, the second texts its second side. The similarity is
    the encoder's or, if it has none, the cosine, which is 0 for a zero vector.
    """
    texts = vectors[name]
    count = len(vectors.lists[name].first)
    return pairwise_similarities(vectors.similarity, texts[:count], texts[count:])


def pairwise_similarities(
    similarity: Similarity | None,
    first: Encoded,
    second: Encoded,
) -> NDArray[np.float64]:
    """Return the similarity of each text in `first` to the text at the same index in `second`, `(n,)`.

    Without a `similarity`, it is the cosine; both must then have one vector per text.
    """
    if not (isinstance(first, list) or isinstance(second, list)):
        if similarity is None or similarity.formula == "cosine":
            return cosines(first, second)
        if similarity.formula == "dot":
            return dots(first, second)

    assert similarity is not None, "only a similarity compares token vectors"
    return _pairwise_of_tensors(similarity, first, second)


def _pairwise_of_tensors(
    similarity: Similarity,
    first: Encoded,
    second: Encoded,
) -> NDArray[np.float64]:
    """Return the similarities that a similarity component computes in float64, block by block, `(n,)`."""
    import numpy as np
    import torch

    result = np.empty(len(first))
    for start in range(0, len(first), _PAIRS):
        part = slice(start, start + _PAIRS)
        left = similarity.normalize(tensors_of(first[part], torch.float64))
        right = similarity.normalize(tensors_of(second[part], torch.float64))
        with torch.no_grad():
            values = similarity.pairwise(left, right)

        result[part] = values.numpy()

    return result


def tensors_of(texts: Encoded, dtype: torch.dtype) -> Any:
    """Return an encoder's output for texts in the form that `Similarity.normalize` takes."""
    import numpy as np
    import torch

    if isinstance(texts, list):
        tokens = [torch.from_numpy(vectors).to(dtype) for vectors in texts]
        lengths = torch.tensor([len(vectors) for vectors in texts])
        padded = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
        mask = torch.arange(padded.shape[1]) < lengths[:, None]
        return TokenVectors(padded, mask)

    return torch.from_numpy(np.ascontiguousarray(texts)).to(dtype)


def cosines(
    first: NDArray[np.float32], second: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return the cosine of each row of `first` and the same row of `second` in float64, `(n,)`.

    The cosine of a zero vector is 0, as in SentEval.
    """
    import numpy as np

    norms = np.sqrt(dots(first, first)) * np.sqrt(dots(second, second))
    result = np.zeros(len(first))
    np.divide(dots(first, second), norms, out=result, where=norms > 0)

    return result


def dots(
    first: NDArray[np.float32], second: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return the dot product of each row of `first` and the same row of `second` in float64, `(n,)`."""
    import numpy as np

    result = np.empty(len(first))
    for start in range(0, len(first), _BLOCK):
        rows = slice(start, start + _BLOCK)
        wide = first[rows].astype(np.float64)
        result[rows] = (wide * second[rows]).sum(axis=1)
    return result


def short_text(text: str) -> str:
    """Return a text for a message, shortened to at most 60 characters."""
    if len(text) <= 60:
        return text
    return text[:59] + "…"
