"""Measures of an embedding space, computed in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows: TypeAlias = NDArray[np.floating[Any]]

_BLOCK = 1024


def distances(
    vectors: Rows,
    positive: Sequence[int],
    offset: int,
    *,
    squared: bool,
) -> NDArray[np.float64]:
    """Return the distance between the L2-normalised rows `i` and `offset + i`, for each `i` in `positive`.

    With `squared`, return the squared distances.
    """
    import numpy as np

    rows = np.asarray(positive)
    difference = _normalise(vectors[rows]) - _normalise(vectors[rows + offset])
    distances: NDArray[np.float64] = (difference**2).sum(axis=1)

    return distances if squared else np.sqrt(distances)


def uniformity(
    vectors: Rows,
    *,
    squared: bool,
    block: int = _BLOCK,
) -> float:
    """Return log E exp(-2 d) over all pairs of rows i < j, computed in blocks of `block` rows.

    `d` is the distance of the L2-normalised rows, which is at most 2, or with `squared` its square, at most 4.
    The terms are therefore in [exp(-8), 1], and their sum in float64 neither overflows nor vanishes.
    """
    import numpy as np

    sums: list[float] = []
    for left in range(0, len(vectors), block):
        a = _normalise(vectors[left : left + block])
        for right in range(left, len(vectors), block):
            b = a if right == left else _normalise(vectors[right : right + block])
            apart = np.maximum(2 - 2 * (a @ b.T), 0)
            if not squared:
                apart = np.sqrt(apart)
            terms = np.exp(-2 * apart)
            if right == left:
                terms = np.triu(terms, k=1)
            sums.append(float(terms.sum()))

    count = len(vectors) * (len(vectors) - 1) // 2

    return math.log(math.fsum(sums) / count)


def mean_cosine(vectors: Rows) -> float:
    """Return the mean cosine over all pairs of rows i < j (Ethayarajh 2019).

    It is computed from the sum of all unit rows: the squared norm of that sum is the number of rows plus twice
    the sum of the cosines.
    """
    unit = _normalise(vectors)
    total = unit.sum(axis=0)
    sum_of_cosines = float(total @ total) - float((unit**2).sum())
    return sum_of_cosines / (len(vectors) * (len(vectors) - 1))


def top_singular_share(vectors: Rows) -> float:
    """Return s_1^2 / sum s_i^2, where s_i are the singular values of the matrix, neither centred nor normalised.

    The value is in [1 / min(rows, width), 1]. The squares are computed as the eigenvalues of the Gram matrix
    `(width, width)`.
    """
    import numpy as np

    wide = vectors.astype(np.float64)
    gram = wide.T @ wide
    return float(np.linalg.eigvalsh(gram)[-1] / np.trace(gram))


def _normalise(rows: Rows) -> NDArray[np.float64]:
    """Return the rows in float64, divided by their L2 norm."""
    import numpy as np

    wide: NDArray[np.float64] = rows.astype(np.float64)
    unit: NDArray[np.float64] = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return unit
