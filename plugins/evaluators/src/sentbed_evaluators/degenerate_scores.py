"""Detection of degenerate scores: scores that say nothing about the encoder. Each function returns the reason.

- If a classifier predicts a single class (`one_class`), all its scores are degenerate.
- If all vectors point in nearly the same direction (`collapsed`), distances are near 0 whatever the texts are:
  alignment and uniformity are degenerate. Correlations of ranks are not, since tiny differences of cosines order
  pairs as well as large differences do.
- If cosines differ by rounding errors only (`equal_cosines`, `equal_vectors`), correlations of ranks and
  retrieved neighbours are degenerate, too.
- Anisotropy is never degenerate: it measures how similar all vectors are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentbed_common import Encoded

_SPAN = 1e-3
"""Vectors have collapsed if the cosine of each one with their mean direction differs from 1 by at most this. The
vectors of a usable encoder have much larger differences."""

_ROUNDING = 1e-6
"""Largest difference between cosines of float32 vectors that can be a rounding error."""


def one_class(
    predicted: NDArray[np.int64], folds: NDArray[np.int64] | None = None
) -> str:
    """Return a reason if all predictions within each fold are of one class; otherwise an empty text.

    Without `folds`, all predictions belong to the same fold.
    """
    import numpy as np

    if folds is None:
        folds = np.zeros(len(predicted), np.int64)
    for fold in np.unique(folds):
        of_fold = predicted[folds == fold]
        if of_fold.min() != of_fold.max():
            return ""
    return "the classifier predicts one class only"


def equal_cosines(similarities: NDArray[np.float64]) -> str:
    """Return a reason if cosines differ by rounding errors only, so that they cannot rank pairs; else empty."""
    low, high = float(similarities.min()), float(similarities.max())
    if high - low > _ROUNDING:
        return ""
    return f"the vectors have collapsed: all cosines are about {low:.4f}, and differ by rounding only"


def equal_vectors(vectors: Encoded) -> str:
    """Return a reason if all texts have equal vectors up to rounding; otherwise an empty text.

    No vector may be zero. Texts with a vector for each token are not tested.
    """
    if isinstance(vectors, list):
        return ""
    return _within(vectors, _ROUNDING)


def collapsed(vectors: NDArray[np.float32]) -> str:
    """Return a reason if all vectors point in nearly the same direction; otherwise an empty text.

    Distances between such vectors are meaningless: all are near 0, as if every pair were aligned. No vector may
    be zero.
    """
    return _within(vectors, _SPAN)


def _within(vectors: NDArray[np.float32], span: float) -> str:
    """Return a reason if each vector's cosine with the mean direction is at least `1 - span`; else an empty text.

    This holds whenever the cosine of every two vectors is at least `1 - span`.
    """
    import numpy as np

    if len(vectors) < 2:
        return ""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    mean = units.mean(axis=0, dtype=np.float64)
    if not mean.any():
        return ""
    low = float((units @ (mean / np.linalg.norm(mean))).min())
    if low < 1 - span:
        return ""

    return f"the vectors have collapsed: all cosines with their mean are above {np.floor(1e4 * low) / 1e4:.4f}"
