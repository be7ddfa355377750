"""Cache of sentence vectors on disk. All evaluations, runs and processes on this machine share it.

A *space* holds the vectors of encoders with equal fingerprints (`sentbed_common.fingerprint_of`), which cover
everything that determines a vector, except the text. A space is a directory. It has one file for each list of
texts that was encoded together. Files are written atomically and never change, so processes need no locks.

Vectors are found by the whole list of texts, since the last bits of a vector depend on the other texts in its
batch. If 600 STS sentences are encoded with 600 other texts, for example, 8% of MiniLM's vectors differ by up
to 8e-7 in fp32, and 49% by up to 0.012 in bf16. If single vectors were reused in other lists, scores would
depend on what was encoded on this machine before. So a vector is read only if the same computation wrote it,
and no bit of a score changes.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed.errors import RunError
from sentbed.helpers import atomic_file
from sentbed.protocols import VectorStore
from sentbed.tools import WINDOW, Progress, distinct_texts
from sentbed_common import (
    CACHE_VARIABLE,
    cache_root,
    fingerprint_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentbed import Encoder

LIMIT_VARIABLE = "SENTBED_CACHE_GB"
"""Environment variable with the largest size of the cache in GB."""
DEFAULT_GB = 5.0
"""Largest size of the cache in GB if the variable is not set."""

SEGMENT = ".npy"
"""Suffix of the files with vectors: float32 `(texts, width)`, as NumPy writes them."""
HEADER_SIZE = 128
"""Size in bytes of the header of such a file."""


def size_limit() -> int:
    """Return the largest size of the cache in bytes. Raises `RunError` if `SENTBED_CACHE_GB` is invalid."""
    value = os.environ.get(LIMIT_VARIABLE) or str(DEFAULT_GB)
    try:
        gigabytes = float(value)
    except ValueError:
        gigabytes = math.nan

    if not 0 <= gigabytes < math.inf:
        raise RunError(
            f"`{LIMIT_VARIABLE}` is {value!r}, expected how many GB of vectors may be kept; "
            "set it to a number such as 5, or to 0 to keep none"
        )
    return int(gigabytes * 1e9)


@attrs.define(eq=False)
class VectorCache(VectorStore):
    """The cache of vectors, which evaluations use as their vector store."""

    root: Path = attrs.field(factory=lambda: cache_root() / "vectors")
    limit: int = attrs.field(factory=size_limit)
    """Largest size in bytes. If it is exceeded, the least recently used files are removed."""
    say: Callable[[str], object] = lambda _: None
    """Function that is called once, with the reason, if vectors cannot be written."""
    taken: int = 0
    """Number of distinct texts whose vectors were read from the cache."""
    encoded: int = 0
    """Number of distinct texts that had to be encoded."""
    writes: bool = attrs.field(default=True, init=False)
    """Whether vectors are written. It is false after an error."""
    _room: int = attrs.field(default=0, init=False)
    """Number of bytes that may be written before the size of the cache is checked again."""

    def space(self, encoder: Encoder) -> str | None:
        """Return the fingerprint of an encoder, or None if a part of the encoder has no fingerprint."""
        return fingerprint_of(encoder)

    def encode(
        self,
        space: str | None,
        texts: Sequence[str],
        encode: Callable[[Sequence[str]], NDArray[np.float32]],
        width: int,
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """Return the vectors of `texts`, float32 `(len(texts), width)`. They equal `encode(texts)` to the bit.

        In each window of `WINDOW` texts, distinct texts are encoded once. Without a space, nothing is read or
        written. `progress` is passed on to `compute`; the function `encode` reports its own progress.
        """
        import numpy as np

        output = np.empty((len(texts), width), np.float32)
        for start in range(0, len(texts), WINDOW):
            distinct, rows = distinct_texts(texts[start : start + WINDOW])
            digest = ""
            vectors = None
            if space:
                digest = list_digest(distinct)
                vectors = self._read(space, digest, (len(distinct), width))
            if vectors is not None:
                self.taken += len(distinct)
            else:
                self.encoded += len(distinct)
                vectors = self.compute(space, distinct, encode, progress)
                if space:
                    self.keep(space, digest, vectors)
            output[start : start + len(rows)] = vectors[rows]

        return output

    def compute(
        self,
        space: str | None,
        texts: Sequence[str],
        encode: Callable[[Sequence[str]], NDArray[np.float32]],
        progress: Progress | None,
    ) -> NDArray[np.float32]:
        """Return the vectors of distinct texts that are not in the cache.

        A subclass may compute and store further vectors in the same pass.
        """
        return encode(texts)

    def path(self, space: str, digest: str) -> Path:
        """Return the file in a space for the vectors of the list of texts with this digest."""
        return self.root / space / (digest + SEGMENT)

    def _read(
        self,
        space: str,
        digest: str,
        shape: tuple[int, int],
    ) -> NDArray[np.float32] | None:
        """Return the cached vectors of a list, or None if there are none that can be read."""
        import numpy as np

        path = self.path(space, digest)
        try:
            vectors: NDArray[np.float32] = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        with suppress(OSError):
            # This records the last use, since file systems need not keep access times. The file may be another
            # user's, and another process may have removed it.
            os.utime(path)
        if vectors.shape != shape or vectors.dtype != np.float32:
            return None
        return vectors

    def keep(
        self,
        space: str,
        digest: str,
        vectors: NDArray[np.float32],
    ) -> None:
        """Write the vectors of a list of texts, unless they exceed the limit or writing failed before."""
        import numpy as np

        size = HEADER_SIZE + vectors.nbytes
        if not self.writes or size > self.limit:
            return
        try:
            with atomic_file(self.path(space, digest)) as stream:
                np.save(stream, vectors.astype(np.float32, copy=False))
            self._room -= size
            if self._room < 0:
                self._room = self._evict()
        except (RunError, OSError) as error:
            if isinstance(error.__cause__, FileNotFoundError):
                # Another process has just cleared the cache.
                return
            self.writes = False
            self.say(
                f"vectors are not kept for later evaluations: {error}, "
                f"with the environment variable `{CACHE_VARIABLE}`"
            )

    def _evict(self) -> int:
        """Remove the least recently used files until the limit is met. Return how many bytes may be written next.

        This is an eighth of the bytes that are left below the limit, since other processes write, too.
        """
        segments = sorted(self.segments(), key=lambda item: item[1].st_mtime)
        excess = sum(state.st_size for _, state in segments) - self.limit
        for path, state in segments:
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= state.st_size

        return max(0, -excess) // 8

    def segments(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield each file with vectors, and its `stat` result.

        Files that killed processes left unfinished are among them.
        """
        for path in self.root.glob(f"*/*{SEGMENT}*"):
            # Another process may remove the file.
            with suppress(OSError):
                yield path, path.stat()


def list_digest(texts: Sequence[str]) -> str:
    """Return the digest of a list of texts: the BLAKE2b hash of the 16-byte BLAKE2b hashes of the texts."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        digest.update(hashlib.blake2b(text.encode(), digest_size=16).digest())
    return digest.hexdigest()
