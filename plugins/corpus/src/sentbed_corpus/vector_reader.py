"""Reader of an encoded corpus, whose vectors stay on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import DataError

from sentbed_corpus.corpus_encoding import MANIFEST, VECTORS, read_manifest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def open_vectors(directory: str | Path) -> Vectors:
    """Open the vectors that `sentbed encode --output DIRECTORY` wrote, in the order of the input.

    Raises:
        DataError: if there are no vectors, or not all of them.
        RunError: if the manifest is damaged.
    """
    import numpy as np

    path = Path(directory)
    manifest = read_manifest(path)
    if manifest is None:
        raise DataError(
            f"`{path}` holds no `{MANIFEST}`; name a directory that `sentbed encode` wrote"
        )
    parts = []
    for file in sorted((path / VECTORS).glob("part-*.npy")):
        parts.append(np.load(file, mmap_mode="r"))
    rows = sum(len(part) for part in parts)
    if rows != manifest["rows"]:
        raise DataError(
            f"`{path}` has {rows} of {manifest['rows']} vectors; start the same `sentbed encode` again"
        )
    ends = np.cumsum([len(part) for part in parts])
    return Vectors(tuple(parts), ends)


@attrs.frozen(eq=False)
class Vectors:
    """Array `(rows, width)` in several files, which are mapped into memory."""

    parts: tuple[NDArray[Any], ...]
    """The array of each file."""
    ends: NDArray[np.int64]
    """Number of the row after the last row of each file."""

    def __len__(self) -> int:
        return int(self.ends[-1])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and width."""
        return len(self), self.parts[0].shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.parts[0].dtype

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Return a copy of the rows that an array's first axis gives for a number, slice, list or mask."""
        import numpy as np

        if isinstance(key, slice):
            rows = np.arange(*key.indices(len(self)))
        elif isinstance(key, int | np.integer):
            rows = np.asarray(range(len(self))[key])
        else:
            rows = np.arange(len(self))[key]

        vectors = np.empty((*rows.shape, self.shape[1]), self.dtype)
        parts = np.searchsorted(self.ends, rows, side="right")
        for number in map(int, np.unique(parts)):
            part = self.parts[number]
            first = self.ends[number] - len(part)
            in_part = parts == number
            vectors[in_part] = part[rows[in_part] - first]
        return vectors

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all vectors in memory."""
        if copy is False:
            raise ValueError(
                "the vectors of several files cannot be one array without a copy"
            )
        return self[:].astype(dtype or self.dtype, copy=False)
