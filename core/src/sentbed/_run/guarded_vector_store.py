"""Wrapper of a plugin's vector store. If the store fails, the run goes on without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sentbed._component_faults import release_of
from sentbed.protocols import AnyEncoder, VectorStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Encode = Callable[[Sequence[str]], NDArray[np.float32]]


class GuardedVectorStore(VectorStore):
    """A plugin's vector store, which is not used any more after its first failure; vectors are then computed."""

    def __init__(self, store: VectorStore, warn: Callable[[str], None]) -> None:
        self.store = store
        self.warn = warn
        self.has_failed = False
        self.taken = store.taken
        self.encoded = store.encoded

    def space(self, encoder: AnyEncoder) -> Any:
        """See `VectorStore.space`; None if the store has failed."""
        if self.has_failed:
            return None
        try:
            return self.store.space(encoder)
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not end the run
            self._give_up(error)
            return None

    def encode(
        self,
        space: Any,
        texts: Sequence[str],
        encode: Encode,
        width: int,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """See `VectorStore.encode`. An error of `encode` is raised; an error of the store becomes a warning."""
        if self.has_failed:
            return encode(texts)

        errors_of_encoder: list[BaseException] = []

        def encode_missing(missing: Sequence[str]) -> NDArray[np.float32]:
            try:
                return encode(missing)
            except BaseException as error:
                errors_of_encoder.append(error)
                raise

        try:
            vectors = self.store.encode(space, texts, encode_missing, width, progress)
        except Exception as error:
            if errors_of_encoder:
                raise
            self._give_up(error)
            return encode(texts)
        self.taken = self.store.taken
        self.encoded = self.store.encoded
        return vectors

    def _give_up(self, error: Exception) -> None:
        """Stop using the store, and warn."""
        self.has_failed = True
        self.warn(
            f"the vector store of {release_of(type(self.store).__module__)} failed "
            f"({type(error).__name__}: {error}); vectors are computed, and not kept"
        )
