"""Repeated texts, found by digests: a few bytes of each are held in memory, and not the texts."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BYTES = 16


def text_digest(content: bytes) -> bytes:
    """Return the 16-byte digest of a text."""
    return hashlib.blake2b(content, digest_size=_BYTES).digest()


def first_of_equal(digests: bytearray) -> NDArray[np.int64]:
    """Return for each of n joined digests the index of the first that equals it, `(n,)`."""
    import numpy as np

    halves = np.frombuffer(digests, np.uint64).reshape(-1, 2)
    # A stable order, so that the first of equal ones is the one that was added first.
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    new = np.ones(len(order), bool)
    new[1:] = (halves[order[1:]] != halves[order[:-1]]).any(axis=1)
    first = np.empty(len(order), np.int64)
    first[order] = order[new][np.cumsum(new) - 1]
    return first
