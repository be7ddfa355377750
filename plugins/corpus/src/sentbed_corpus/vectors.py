"""Memory-mapped vectors of a corpus."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import DataError, RunError

from sentbed_corpus.manifest import FILE, Manifest
from sentbed_corpus.vector_writer import VECTORS, shard_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OPEN = 64
"""Maximum number of shards mapped at a time; each takes a file descriptor."""


def open_vectors(directory: str | Path) -> Vectors:
    """Open the vectors written by `sentbed encode --output DIRECTORY`, in the order of the input.

    Raises:
        DataError: if there are none, they are incomplete, or they are in Parquet files.
    """
    import numpy as np

    path = Path(directory)
    manifest = Manifest.read(path)
    if manifest is None:
        raise DataError(f"`{path}` holds no `{FILE}`; name a directory that `sentbed encode` wrote")
    if manifest.request["format"] != "npy":
        raise DataError(
            f"the vectors are in Parquet files; read `{path / VECTORS}` with pyarrow, polars or datasets"
        )
    if not manifest.complete or manifest.how is None:
        raise DataError(f"the vectors in `{path}` are not complete; start the same command again")
    files = tuple(shard_file(path, shard.number, "npy") for shard in manifest.shards)
    ends = np.cumsum([shard.rows for shard in manifest.shards])
    return Vectors(files, ends, manifest.how["width"], np.dtype(manifest.request["dtype"]))


@attrs.frozen(eq=False)
class Vectors:
    """Memory-mapped array `(rows, width)` of the vectors of several shards."""

    files: tuple[Path, ...]
    ends: NDArray[np.int64]
    """Index of the row after the last one of each file."""
    width: int
    dtype: np.dtype[Any]
    _maps: OrderedDict[int, NDArray[Any]] = attrs.field(factory=OrderedDict, init=False)

    def __len__(self) -> int:
        return int(self.ends[-1])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and width."""
        return len(self), self.width

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return these rows, `(stop - start, width)`: memory-mapped if in one shard, otherwise a copy."""
        import numpy as np

        start, stop, _ = slice(start, stop).indices(len(self))
        parts, first = [], start
        while first < stop:
            number = int(np.searchsorted(self.ends, first, side="right"))
            offset = int(self.ends[number - 1]) if number else 0
            last = min(stop, int(self.ends[number]))
            parts.append(self._map(number)[first - offset : last - offset])
            first = last
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty((0, self.width), self.dtype)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Return the vector of a row, or the vectors of a slice or an array of row indices."""
        import numpy as np

        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self.rows(start, stop)
            return self[np.arange(start, stop, step)]
        chosen = np.asarray(key)
        if chosen.dtype == bool:
            if chosen.shape != (len(self),):
                raise IndexError(f"found a mask of shape {chosen.shape}, expected ({len(self)},)")
            chosen = np.flatnonzero(chosen)
        chosen = chosen.astype(np.int64) if chosen.size == 0 else chosen
        if not np.issubdtype(chosen.dtype, np.integer):
            raise TypeError(f"rows are chosen by whole numbers, slices or masks, found {key!r}")
        if chosen.size and not -len(self) <= chosen.min() <= chosen.max() < len(self):
            raise IndexError(f"found a row outside of 0 to {len(self) - 1}")
        wanted = np.where(chosen < 0, chosen + len(self), chosen)
        output = np.empty((*wanted.shape, self.width), self.dtype)
        numbers = np.searchsorted(self.ends, wanted, side="right")
        for number in np.unique(numbers):
            offset = self.ends[number - 1] if number else 0
            here = numbers == number
            output[here] = self._map(int(number))[wanted[here] - offset]
        return output

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all vectors, in memory."""
        if copy is False:
            raise ValueError("the vectors of several files cannot be one array without a copy")
        whole = self.rows(0, len(self))
        return whole.astype(dtype or self.dtype, copy=True)

    def _map(self, number: int) -> NDArray[Any]:
        import numpy as np

        if number not in self._maps:
            if len(self._maps) >= OPEN:
                self._maps.popitem(last=False)
            try:
                self._maps[number] = np.load(self.files[number], mmap_mode="r")
            except (OSError, ValueError) as error:
                raise RunError(
                    f"`{self.files[number]}` is missing or damaged; start `sentbed encode` again"
                ) from error
        self._maps.move_to_end(number)
        return self._maps[number]
