"""Search for repeated texts by their digests, so that a few bytes per text are in memory instead of the texts."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BYTES = 16


def text_digest(content: bytes) -> bytes:
    """Return the 16-byte BLAKE2b digest of a text's bytes."""
    return hashlib.blake2b(content, digest_size=_BYTES).digest()


def first_of_equal(digests: bytearray) -> NDArray[np.int64]:
    """Return for each digest the index of the first digest equal to it, `(n,)`, which may be its own index.

    `digests` holds n digests of 16 bytes, one after another.
    """
    import numpy as np

    halves = np.frombuffer(digests, np.uint64).reshape(-1, 2)
    # A stable order: equal digests stay in the order in which they were added.
    order = np.lexsort((halves[:, 1], halves[:, 0]))

    ordered = halves[order]
    differs = ordered[1:] != ordered[:-1]
    starts_group = np.ones(len(order), bool)
    starts_group[1:] = differs.any(axis=1)

    group_of = np.cumsum(starts_group) - 1
    first_of_group = order[starts_group]
    first = np.empty(len(order), np.int64)
    first[order] = first_of_group[group_of]
    return first
