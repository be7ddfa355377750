"""Correlation of similarities with gold scores, and checks for vectors that are zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import DataError, RunError
from sentbed.protocols import Items, Score, Vectors
from sentbed_common import short_text

from sentbed_evaluators.degenerate_scores import equal_cosines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROUNDING_RANGE = 1e-9
"""Largest range (maximum minus minimum) of similarities that can be rounding errors alone.

The cosines of a usable encoder have a range above 1e-3.
"""


@attrs.frozen
class Correlation:
    """Spearman's and Pearson's correlation x 100; NaN where they are undefined."""

    spearman: float
    pearson: float
    degenerate: str = ""
    """See `Score.degenerate`."""


def nonzero(vectors: Vectors, name: str) -> NDArray[np.float32]:
    """Return the vectors of the list `name`, one row per text; raises `RunError` if one is zero."""
    return require_nonzero(vectors[name], vectors.lists[name].both)


def require_nonzero(
    vectors: NDArray[np.float32], texts: Sequence[str]
) -> NDArray[np.float32]:
    """Return `vectors`, which has one row per text.

    Raises `RunError`, with the text, if a vector is zero. A zero vector comes from an encoder that fails on a
    text; the score of a classifier would not show it.
    """
    import numpy as np

    zeros = zero_vectors(vectors)
    if zeros:
        text = texts[int(np.argmin(vectors.any(axis=1)))]
        raise RunError(
            f"the embedding of {short_text(text)!r} is a zero vector ({zeros} of {len(vectors)} vectors are "
            "zero); check the pooler and the weights"
        )
    return vectors


def zero_vectors(vectors: NDArray[np.float32]) -> int:
    """Return the number of rows that are all zero."""
    return len(vectors) - int(vectors.any(axis=1).sum())


def zero_notes(vectors: NDArray[np.float32], texts: Sequence[str]) -> list[str]:
    """Return a list with one note on the number of zero vectors, whose cosines count as 0; else an empty list."""
    import numpy as np

    zeros = zero_vectors(vectors)
    if not zeros:
        return []
    first = texts[int(np.argmin(vectors.any(axis=1)))]
    note = f"{zeros} zero vectors, whose cosine counts as 0, the first that of {short_text(first)!r}"
    return [note]


def require_varied(scores: Sequence[float], file: object) -> None:
    """Raise `DataError` unless a correlation with these gold scores is defined: they must not be all equal."""
    if len(scores) < 2 or min(scores) == max(scores):
        raise DataError(
            f"found {len(scores)} scored pairs with {len(set(scores))} different scores, but a correlation "
            f"needs two of each; add pairs or leave the task out",
            file,
        )


def correlate(gold: Sequence[float], similarities: NDArray[np.float64]) -> Correlation:
    """Return Spearman's and Pearson's correlation x 100.

    If all similarities are equal up to rounding, both are undefined.
    """
    from scipy import stats

    if float(similarities.max() - similarities.min()) <= _ROUNDING_RANGE:
        # An encoder may collapse during training: that is no error.
        return Correlation(math.nan, math.nan, equal_cosines(similarities))
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
    """Return Spearman's correlation as a score; its items are the gold scores and the similarities.

    An undefined correlation has no items, since it has no interval.
    `zeros` are notes on zero vectors. `clusters` has a number per pair; pairs that were drawn together, such as
    from one passage, have the same number.
    """
    import numpy as np

    items = None
    if not math.isnan(correlation.spearman):
        items = Items(
            "spearman",
            np.array(gold, np.float64),
            similarities,
            clusters=clusters,
        )
    return Score(
        task,
        "spearman",
        correlation.spearman,
        protocol,
        items=items,
        note="; ".join(zeros),
        degenerate=correlation.degenerate,
    )
