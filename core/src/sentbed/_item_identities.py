"""Identities of the items of a score, as 64-bit integers.

An item that occurs in several tasks has the same identity in each of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def identities(items: Iterable[tuple[str, ...]]) -> NDArray[np.int64]:
    """Return a 64-bit hash of each item, `(n,)`, for `Items.clusters`.

    Each item is a tuple of the texts that identify it, such as the two sentences of a pair. Items that must be
    resampled together, such as the questions about one passage, are given the same tuple.
    """
    import numpy as np

    numbers = []
    for texts in items:
        # The lengths come first, so that ("ab", "c") and ("a", "bc") differ.
        lengths = ",".join(str(len(text)) for text in texts)
        content = "\0".join((lengths, *texts)).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(content, digest_size=8).digest()
        numbers.append(int.from_bytes(digest, "big", signed=True))
    return np.array(numbers, np.int64)
