"""Whitening of vectors, and directions in which they vary."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def whitening_of(
    vectors: NDArray[np.float32],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean `(width,)` and kernel `(width, rank)` that whiten vectors `(n, width)`, in float64.

    Of the vectors themselves, `(vectors - mean) @ kernel` has mean 0 and as covariance (over n) the identity.
    Columns are in descending order of variance; `rank` is the number of directions in which the vectors vary
    by more than the rounding of fp32, 0 if all are equal. The first columns of the kernel whiten to fewer
    dimensions.

    Source: Su et al. (2021), algorithm 1.
    """
    import numpy as np

    rows = vectors.astype(np.float64)
    mean = rows.mean(axis=0)
    # The singular values of the centred rows: their squares over n are the covariance's eigenvalues, and
    # small ones are more exact than of the covariance itself.
    values, components = _singular(rows - mean)
    # What is smaller is the rounding of vectors in fp32.
    noise = (
        np.abs(rows).max(initial=0.0)
        * max(rows.shape) ** 0.5
        * np.finfo(np.float32).eps
    )
    rank = int((values > noise).sum())
    return mean, components[:rank].T * (len(rows) ** 0.5 / values[:rank])


def _singular(
    rows: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return singular values, descending, and right singular vectors as rows."""
    import numpy as np

    # Of a tall matrix those of its triangular factor, which is small.
    factor = np.linalg.qr(rows, mode="r") if len(rows) > rows.shape[1] else rows
    _, values, components = np.linalg.svd(factor, full_matrices=False)
    return values, components
