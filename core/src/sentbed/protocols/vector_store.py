"""Stores of sentence vectors, which evaluations share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sentbed.protocols.components import AnyEncoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class VectorStore(ABC):
    """Keeps vectors for later evaluations, and changes no bit of any."""

    taken: int
    """Number of distinct texts whose vectors were found."""
    encoded: int
    """Number of distinct texts that had to be encoded."""

    @abstractmethod
    def space(self, encoder: AnyEncoder) -> Any:
        """Return what determines the vectors of an encoder apart from the texts; asked once an evaluation."""

    @abstractmethod
    def encode(
        self,
        space: Any,
        texts: Sequence[str],
        encode: Callable[[Sequence[str]], NDArray[np.float32]],
        width: int,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Return the vectors of `texts`, bit-identical to `encode(texts)`, float32 `(len(texts), width)`.

        `space` is what the method `space` returned for the encoder. A store that does not call `encode` calls
        `progress` with the number of texts finished since its last call.
        """
