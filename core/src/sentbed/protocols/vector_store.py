"""Stores of sentence vectors, which evaluations share."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class Space:
    """Everything but the texts that determines a vector, and a readable description of it."""

    key: Mapping[str, Any]
    """Everything in which two encoders may differ, JSON-serialisable."""
    about: Mapping[str, Any]
    """Model, pooler, width, precision and length, for users."""

    @property
    def name(self) -> str:
        """BLAKE2b of `key`."""
        content = json.dumps(self.key, sort_keys=True, default=str)
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


class VectorStore(ABC):
    """Keeps vectors for later evaluations, and changes no bit of any."""

    taken: int
    """Number of distinct texts whose vectors were found."""
    encoded: int
    """Number of distinct texts that had to be encoded."""

    @abstractmethod
    def encode(
        self,
        space: Space | None,
        texts: Sequence[str],
        encode: Callable[[Sequence[str]], NDArray[np.float32]],
        width: int,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Return the vectors of `texts`, bit-identical to `encode(texts)`, float32 `(len(texts), width)`.

        Without a space nothing is read or kept. A store that does not call `encode` calls `progress` with the
        number of texts finished since its last call.
        """
