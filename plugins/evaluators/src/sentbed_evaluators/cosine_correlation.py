"""Correlation of similarities with gold scores, and vectors that must be finite or not zero."""

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
"""Range of cosines below which their differences are rounding errors; a usable encoder's range exceeds 1e-3."""


@attrs.frozen
class Correlation:
    """Correlations x 100, with a note."""

    spearman: float
    pearson: float
    note: str | None = None
    degenerate: str = ""
    """See `Score.degenerate`."""


def nonzero(vectors: Vectors, name: str) -> NDArray[np.float32]:
    """Return the vectors of a list, a row for each text; raises `RunError` if one is not finite or is zero."""
    return require_nonzero(vectors[name], vectors.lists[name].both)


def require_nonzero(
    vectors: NDArray[np.float32], texts: Sequence[str]
) -> NDArray[np.float32]:
    """Return the vectors of texts, a row for each; raises `RunError` if one is not finite or is zero.

    The message has the sentence. An encoder that fails on a sentence gives it a zero vector, which a
    classifier's score would not show.
    """
    import numpy as np

    vectors = require_finite(vectors, texts)
    zeros = zero_vectors(vectors)
    if zeros:
        text = texts[int(np.argmin(vectors.any(axis=1)))]
        raise RunError(
            f"the embedding of {short_text(text)!r} is a zero vector, as are "
            f"{zeros - 1} others of {len(vectors)}; check the pooler and the weights"
        )
    return vectors


def zero_vectors(vectors: NDArray[np.float32]) -> int:
    """Return the number of rows that are all zero."""
    return len(vectors) - int(vectors.any(axis=1).sum())


def zero_notes(vectors: NDArray[np.float32], texts: Sequence[str]) -> list[str]:
    """Return a note for the protocol on zero vectors, whose cosine counts as 0; none without zero vectors."""
    import numpy as np

    zeros = zero_vectors(vectors)
    if not zeros:
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
    """Return the score of Spearman's correlation, with gold scores and similarities as its items.

    `zeros` are notes on zero vectors. `clusters` numbers the pairs by what they were drawn from.
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
    """Return the similarities, or zeros if they differ by rounding errors only (their score is 0)."""
    import numpy as np

    if _is_constant(similarities):
        return np.zeros_like(similarities)
    return similarities


def _is_constant(similarities: NDArray[np.float64]) -> bool:
    return float(similarities.max() - similarities.min()) <= _CONSTANT
