"""Scores that say nothing about the encoder, and the fault that makes them meaningless.

- Predictions of a single class: every score of that classifier.
- Vectors in nearly the same direction (`collapsed`): distances, as in alignment and uniformity, which are near
  0 whatever the texts are. Ranks remain: tiny differences of cosines order pairs as well as large ones do.
- Cosines that differ by rounding errors only (`equal_cosines`, `equal_vectors`): ranks as well, such as
  correlations, and retrieved neighbours.
- Anisotropy measures how similar all vectors are: for a collapsed encoder, too, it is meaningful.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SPAN = 1e-3
"""Distance of cosines from 1 within which vectors have collapsed; a usable encoder exceeds it by far."""
_ROUNDING = 1e-6
"""Range of cosines of float32 vectors that can be rounding errors."""


def one_class(
    predicted: NDArray[np.int64], folds: NDArray[np.int64] | None = None
) -> str:
    """Return a reason if all predictions are of one class, in each of the `folds`; else an empty text."""
    import numpy as np

    if folds is None:
        folds = np.zeros(len(predicted), np.int64)
    for fold in np.unique(folds):
        of_fold = predicted[folds == fold]
        if of_fold.min() != of_fold.max():
            return ""
    return "the classifier found one class only"


def equal_cosines(similarities: NDArray[np.float64]) -> str:
    """Return a reason if cosines differ by rounding errors only, and so rank no pairs; else an empty text."""
    low, high = float(similarities.min()), float(similarities.max())
    if high - low > _ROUNDING:
        return ""
    return f"the vectors have collapsed: all cosines are about {low:.4f}, and differ by rounding only"


def equal_vectors(vectors: NDArray[np.float32]) -> str:
    """Return a reason if all vectors, none zero, are equal up to rounding; else an empty text."""
    return _within(vectors, _ROUNDING)


def collapsed(vectors: NDArray[np.float32]) -> str:
    """Return a reason if all vectors, none zero, point into nearly the same direction; else an empty text.

    Distances between them are then meaningless: all are near 0, as if every pair were aligned.
    """
    return _within(vectors, _SPAN)


def _within(vectors: NDArray[np.float32], span: float) -> str:
    """Return a reason if no cosine with the mean direction is further from 1 than `span`.

    That is so if no two of the vectors have a cosine further from 1 than `span`.
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
