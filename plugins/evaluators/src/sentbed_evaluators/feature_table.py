"""The table of a classifier's features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sentbed_evaluators.pair_features import PairFeatures, pair_features

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK = 4096


def feature_table(
    vectors: NDArray[np.float32],
    sides: Sequence[NDArray[np.int64]],
    kind: PairFeatures = "infersent",
) -> NDArray[np.float32]:
    """Return the features of examples, one row per example.

    A side has, for each example, the row of its sentence in `vectors`. With one side, the features are the
    vectors, `(n, width)`; with two, they are the features of pairs.
    """
    import numpy as np

    def features(rows: slice) -> NDArray[np.float32]:
        parts = [vectors[side[rows]] for side in sides]
        return parts[0] if len(parts) == 1 else pair_features(parts[0], parts[1], kind)

    shape = len(sides[0]), features(slice(0)).shape[1]
    table = np.empty(shape, np.float32)
    for start in range(0, shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        table[rows] = features(rows)
    return table
