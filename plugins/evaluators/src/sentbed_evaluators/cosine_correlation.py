"""Cosines of embeddings and their correlation with gold scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import DataError, RunError
from sentbed.protocols import Items, Score, Vectors
from sentbed_common import require_finite, short_text

from sentbed_evaluators.degenerate_scores import equal_cosines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
            f"the embedding of {short_text(text)!r} is a zero vector, as are "
            f"{int((~is_nonzero).sum()) - 1} others of {len(vectors)}; check the pooler and the weights"
        )
    return vectors


def zero_vectors(vectors: NDArray[np.float32]) -> int:
    """Return the number of rows that are all zero."""
    return len(vectors) - int(vectors.any(axis=1).sum())


def zero_notes(vectors: NDArray[np.float32], texts: Sequence[str]) -> list[str]:
    """Return a note for the protocol on zero vectors, whose cosine counts as 0; none without any."""
    import numpy as np

    if not (zeros := zero_vectors(vectors)):
        return []
    first = texts[int(np.argmin(vectors.any(axis=1)))]
    note = f"{zeros} zero vectors, whose cosine counts as 0, the first that of {short_text(first)!r}"
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
