"""Whitening of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def whitening_of(
    vectors: NDArray[np.float32],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean `(width,)` and kernel `(width, rank)` that whiten vectors `(n, width)`, in float64.

    `(vectors - mean) @ kernel` has mean 0 and the identity as its covariance (divided by n, not n - 1). The
    kernel's columns are in descending order of variance; its first columns whiten to fewer dimensions. `rank`
    is the number of directions in which the vectors vary by more than the rounding of fp32: 0 if all vectors
    are equal.

    Source: Su et al. (2021), algorithm 1.
    """
    import numpy as np

    rows = vectors.astype(np.float64)
    mean = rows.mean(axis=0)
    # The eigenvalues of the covariance are the squared singular values of the centred rows, divided by n. Small
    # eigenvalues are more exact this way than computed from the covariance.
    values, components = _singular(rows - mean)
    # Singular values below `noise` are rounding errors of vectors in fp32.
    largest = np.abs(rows).max(initial=0.0)
    noise = largest * max(rows.shape) ** 0.5 * np.finfo(np.float32).eps
    rank = int((values > noise).sum())
    return mean, components[:rank].T * (len(rows) ** 0.5 / values[:rank])


def _singular(
    rows: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the singular values of a matrix, descending, and its right singular vectors as rows."""
    import numpy as np

    if len(rows) > rows.shape[1]:
        # The triangular factor (QR) of a tall matrix is small, with the same singular values and vectors.
        rows = np.asarray(np.linalg.qr(rows, mode="r"))

    _, values, components = np.linalg.svd(rows, full_matrices=False)
    return values, components
