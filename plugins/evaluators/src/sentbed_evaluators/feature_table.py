"""The table of a classifier's features: in memory or, if it is large, a memory-mapped file."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sentbed import RunError

from sentbed_evaluators.pair_features import PairFeatures, pair_features

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IN_MEMORY = 1 << 30
"""Largest size in bytes of a table that is kept in memory. MNLI's table has 6.4 GB at width 1024, and a training
step needs only one batch of it."""

_BLOCK = 4096


def feature_table(
    vectors: NDArray[np.float32],
    sides: Sequence[NDArray[np.int64]],
    directory: Path,
    kind: PairFeatures = "infersent",
) -> NDArray[np.float32]:
    """Return the features of examples, one row per example.

    A side has, for each example, the row of its sentence in `vectors`. With one side, the features are the
    vectors, `(n, width)`; with two, they are the features of pairs. A table of more than `IN_MEMORY` bytes
    is a memory-mapped file in `directory`.

    Raises:
        RunError: if the disk has no room for the file.
    """
    import numpy as np

    def features(rows: slice) -> NDArray[np.float32]:
        parts = [vectors[side[rows]] for side in sides]
        return parts[0] if len(parts) == 1 else pair_features(parts[0], parts[1], kind)

    shape = len(sides[0]), features(slice(0)).shape[1]
    size = 4 * shape[0] * shape[1]
    if size <= IN_MEMORY:
        table = np.empty(shape, np.float32)
    else:
        # Writing to a memory map on a full disk would kill the process without a message.
        free = shutil.disk_usage(directory).free
        if size > free:
            raise RunError(
                f"the features of {shape[0]:,} examples take {size / 1e9:.1f} GB, but `{directory.parent}` "
                f"has {free / 1e9:.1f} GB free; set `limit` to fewer of them, or `TMPDIR` to a "
                f"directory with more room"
            )
        table = np.memmap(directory / "features", np.float32, "w+", shape=shape)
    for start in range(0, shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        table[rows] = features(rows)
    return table
