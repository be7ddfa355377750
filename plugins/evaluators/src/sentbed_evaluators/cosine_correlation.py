"""Correlation of similarities with gold scores, and checks for vectors that are zero."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

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

    is_zero = ~vectors.any(axis=1)
    if is_zero.any():
        zeros, text = int(is_zero.sum()), texts[int(np.argmax(is_zero))]
        raise RunError(
            f"the embedding of {short_text(text)!r} is a zero vector ({zeros} of {len(vectors)} vectors are "
            "zero); check the pooler and the weights"
        )
    return vectors


def require_varied(scores: Sequence[float], file: object) -> None:
    """Raise `DataError` unless a correlation with these gold scores is defined: they must not be all equal."""
    if len(scores) < 2 or min(scores) == max(scores):
        raise DataError(
            f"found {len(scores)} scored pairs with {len(set(scores))} different scores, but a correlation "
            f"needs two of each; add pairs or leave the task out",
            file,
        )


def correlation_score(
    task: str,
    gold: Sequence[float],
    similarities: NDArray[np.float64],
    protocol: Mapping[str, Any],
    metric: Literal["spearman", "pearson"] = "spearman",
    *,
    note: str = "",
    clusters: NDArray[np.int64] | None = None,
) -> Score:
    """Return a correlation x 100 as a score; its items are the gold scores and the similarities.

    If all similarities are equal up to rounding, it is undefined (NaN) and has no items.
    `clusters` has a number per pair; pairs that were drawn together, such as from one passage, have the same
    number.
    """
    import numpy as np
    from scipy import stats

    correlate = {"spearman": stats.spearmanr, "pearson": stats.pearsonr}[metric]
    # An encoder may collapse during training: that is no error.
    value, items = math.nan, None
    if float(similarities.max() - similarities.min()) > _ROUNDING_RANGE:
        value = 100 * float(correlate(gold, similarities).statistic)
        scores = np.array(gold, np.float64)
        items = Items(metric, scores, similarities, clusters=clusters)

    return Score(
        task,
        metric,
        value,
        {**protocol, "correlation": metric},
        items=items,
        note=note,
        degenerate=equal_cosines(similarities),
    )
