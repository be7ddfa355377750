"""Cosines of embeddings and their correlation with gold scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import DataError, RunError
from sentbed.protocols import Items, Score, Vectors

from sentbed_evaluators.degenerate_scores import equal_cosines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK = 4096
_CONSTANT = 1e-9
"""Spread of cosines below which differences are rounding errors; that of a usable encoder exceeds 1e-3."""


@attrs.frozen
class Correlation:
    """Correlations x 100, with a note."""

    spearman: float
    pearson: float
    note: str | None = None
    degenerate: str = ""
    """See `Score.degenerate`."""


def finite(vectors: Vectors, name: str) -> NDArray[np.float32]:
    """Return the vectors of a list, one finite row per text; raises `RunError` otherwise."""
    return require_finite(vectors[name], vectors.lists[name].both)


def nonzero(vectors: Vectors, name: str) -> NDArray[np.float32]:
    """Return the vectors of a list, one finite row per text, none of them zero throughout.

    Raises `RunError` that names the sentence.
    """
    return require_nonzero(vectors[name], vectors.lists[name].both)


def require_finite(
    vectors: NDArray[np.float32], texts: Sequence[str]
) -> NDArray[np.float32]:
    """Return the vectors of texts, one finite row per text; raises `RunError` otherwise."""
    import numpy as np

    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise RunError(
            f"the encoder gave an array of shape {vectors.shape} for {len(texts)} sentences, but one row a "
            f"sentence was expected; check the pooler"
        )
    for start in range(0, len(vectors), _BLOCK):
        is_finite = np.isfinite(vectors[start : start + _BLOCK]).all(axis=1)
        if not is_finite.all():
            text = texts[start + int(np.argmin(is_finite))]
            raise RunError(
                f"the embedding of {_shorten(text)!r} has NaN or infinite values; lower the learning rate, "
                f"or run in fp32 where it was not trained here"
            )
    return vectors


def require_nonzero(
    vectors: NDArray[np.float32], texts: Sequence[str]
) -> NDArray[np.float32]:
    """Return the vectors of texts, one finite row per text, none zero; raises `RunError` naming the sentence.

    A zero vector is a sentence that the encoder has lost, which a classifier's score would not show.
    """
    import numpy as np

    vectors = require_finite(vectors, texts)
    is_nonzero = vectors.any(axis=1)
    if not is_nonzero.all():
        text = texts[int(np.argmin(is_nonzero))]
        raise RunError(
            f"the embedding of {_shorten(text)!r} is a zero vector, as are "
            f"{int((~is_nonzero).sum()) - 1} others of {len(vectors)}; check the pooler and the weights"
        )
    return vectors


def cosines(
    first: NDArray[np.float32], second: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return the cosine of each row pair in float64, `(n,)`; 0 for a zero vector, as in SentEval."""
    import numpy as np

    result = np.zeros(len(first))
    for rows, a, b in _blocks(first, second):
        norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        products = (a * b).sum(axis=1)
        np.divide(products, norms, out=result[rows], where=norms > 0)
    return result


def dots(
    first: NDArray[np.float32], second: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return the dot product of each row pair in float64, `(n,)`."""
    import numpy as np

    result = np.zeros(len(first))
    for rows, a, b in _blocks(first, second):
        result[rows] = (a * b).sum(axis=1)
    return result


def _blocks(
    first: NDArray[np.float32], second: NDArray[np.float32]
) -> Iterator[tuple[slice, NDArray[np.float64], NDArray[np.float64]]]:
    """Yield the places of some rows, and these rows of both sides in float64."""
    import numpy as np

    for start in range(0, len(first), _BLOCK):
        rows = slice(start, start + _BLOCK)
        yield rows, first[rows].astype(np.float64), second[rows].astype(np.float64)


def zero_vectors(vectors: NDArray[np.float32]) -> int:
    """Return the number of rows that are all zero."""
    return len(vectors) - int(vectors.any(axis=1).sum())


def zero_notes(vectors: NDArray[np.float32], texts: Sequence[str]) -> list[str]:
    """Return a note for the protocol on zero vectors, whose cosine counts as 0; none without any."""
    import numpy as np

    if not (zeros := zero_vectors(vectors)):
        return []
    first = texts[int(np.argmin(vectors.any(axis=1)))]
    note = f"{zeros} zero vectors, whose cosine counts as 0, the first that of {_shorten(first)!r}"
    return [note]


def require_varied(scores: Sequence[float], file: object) -> None:
    """Raise `DataError` if no correlation with these gold scores is defined."""
    if len(scores) < 2 or min(scores) == max(scores):
        raise DataError(
            f"found {len(scores)} scored pairs with {len(set(scores))} different scores, but a correlation "
            f"needs two of each; add pairs or leave the task out",
            file,
        )


def correlate(gold: Sequence[float], similarities: NDArray[np.float64]) -> Correlation:
    """Return Spearman's and Pearson's correlation x 100; 0 with a note if all similarities are equal."""
    from scipy import stats

    if _is_constant(similarities):
        # An encoder may collapse during training: that gives the lowest useful score, not an error.
        return Correlation(0.0, 0.0, "constant similarity", equal_cosines(similarities))
    return Correlation(
        spearman=100 * float(stats.spearmanr(gold, similarities).statistic),
        pearson=100 * float(stats.pearsonr(gold, similarities).statistic),
        degenerate=equal_cosines(similarities),
    )


def correlation_score(
    task: str,
    correlation: Correlation,
    gold: Sequence[float],
    similarities: NDArray[np.float64],
    protocol: dict[str, Any],
    *,
    zeros: Sequence[str] = (),
    clusters: NDArray[np.int64] | None = None,
) -> Score:
    """Return Spearman's correlation of gold scores and similarities, which are its items.

    `zeros` are notes on zero vectors, and `clusters` numbers of what the pairs were drawn with.
    """
    import numpy as np

    notes = [note for note in (correlation.note, *zeros) if note]
    return Score(
        task,
        "spearman",
        correlation.spearman,
        protocol,
        items=Items(
            "spearman",
            np.array(gold, np.float64),
            levelled(similarities),
            clusters=clusters,
        ),
        note="; ".join(notes),
        degenerate=correlation.degenerate,
    )


def levelled(similarities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the similarities, or zeros if they differ by rounding only: the items of a score of 0."""
    import numpy as np

    return np.zeros_like(similarities) if _is_constant(similarities) else similarities


def _is_constant(similarities: NDArray[np.float64]) -> bool:
    return float(similarities.max() - similarities.min()) <= _CONSTANT


def _shorten(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
