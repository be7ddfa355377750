"""Scores that say nothing about the encoder: constant predictions, collapsed vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SPAN = 1e-3
"""Span of cosines below which vectors have collapsed; that of a usable encoder is larger by far."""


def one_class(predicted: NDArray[np.int64], folds: NDArray[np.int64] | None = None) -> str:
    """Return a reason if the predictions are constant, within each of the `folds` if given; else empty."""
    import numpy as np

    parts = [predicted] if folds is None else [predicted[folds == fold] for fold in np.unique(folds)]
    if any(len(part) and part.min() != part.max() for part in parts):
        return ""
    return "the classifier found one class only"


def collapsed_cosines(similarities: NDArray[np.float64]) -> str:
    """Return a reason if the cosines of pairs differ too little to rank the pairs; else empty."""
    low, high = float(similarities.min()), float(similarities.max())
    if high - low > _SPAN:
        return ""
    lowest, highest = f"{low:.4f}", f"{high:.4f}"
    where = f"about {lowest}" if lowest == highest else f"between {lowest} and {highest}"
    return f"the vectors have collapsed: all cosines are {where}"


def collapsed(vectors: NDArray[np.float32]) -> str:
    """Return a reason if all vectors, none zero, point into nearly the same direction; else empty."""
    import numpy as np

    if len(vectors) < 2:
        return ""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    mean = units.mean(axis=0, dtype=np.float64)
    cosines = units @ (mean / np.linalg.norm(mean)) if mean.any() else np.zeros(1)
    # An angle of at most a to the mean is one of at most 2a to each other, and 1 - cos grows with its square.
    low = 1 - 4 * (1 - float(cosines.min()))
    return f"the vectors have collapsed: all cosines are above {low:.4f}" if low >= 1 - _SPAN else ""
