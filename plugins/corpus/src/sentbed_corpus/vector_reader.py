"""Reader of an encoded corpus: vectors are read from disk when they are accessed.

Files are not mapped into memory: if another process truncated a mapped file, the next access would crash this
process.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import DataError, RunError

from sentbed_corpus.manifest import FILE, Manifest
from sentbed_corpus.vector_writer import VECTORS, NpyLayout, shard_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def open_vectors(directory: str | Path) -> Vectors:
    """Open the vectors that `sentbed encode --output DIRECTORY` wrote, in the order of the input.

    Raises:
        DataError: if there are no vectors, they are not complete, or they are in Parquet files.
    """
    import numpy as np

    path = Path(directory)
    manifest = Manifest.read(path)
    if manifest is None:
        raise DataError(
            f"`{path}` holds no `{FILE}`; name a directory that `sentbed encode` wrote"
        )
    if manifest.request["format"] != "npy":
        raise DataError(
            f"the vectors are in Parquet files; read `{path / VECTORS}` with pyarrow, polars or datasets"
        )
    if not manifest.complete or manifest.how is None:
        raise DataError(
            f"the vectors in `{path}` are not complete; start the same command again"
        )
    files = tuple(shard_file(path, shard.number, "npy") for shard in manifest.shards)
    ends = np.cumsum([shard.rows for shard in manifest.shards])
    return Vectors(
        files,
        ends,
        manifest.how["width"],
        np.dtype(manifest.request["dtype"]),
    )


@attrs.frozen(eq=False)
class Vectors:
    """Array `(rows, width)` on disk: the vectors of several shards."""

    files: tuple[Path, ...]
    ends: NDArray[np.int64]
    """Index of the row after the last row of each file."""
    width: int
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return int(self.ends[-1])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and width."""
        return len(self), self.width

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows from `start` to `stop`, `(stop - start, width)`, in memory.

        Raises:
            RunError: if a file is missing or damaged.
        """
        import numpy as np

        start, stop, _ = slice(start, stop).indices(len(self))
        output = np.empty((max(0, stop - start), self.width), self.dtype)
        first = start
        while first < stop:
            number = int(np.searchsorted(self.ends, first, side="right"))
            first_of_file = self._first_row(number)
            last = min(stop, int(self.ends[number]))
            rows = self._read(number, first - first_of_file, last - first_of_file)
            output[first - start : last - start] = rows
            first = last
        return output

    def _first_row(self, number: int) -> int:
        """Return the index of a file's first row in the corpus."""
        if number == 0:
            return 0
        return int(self.ends[number - 1])

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Return the vector of a row index, or the vectors of a slice, an array of row indices, or a mask."""
        import numpy as np

        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self.rows(start, stop)
            return self[np.arange(start, stop, step)]

        rows = self._row_numbers(key)
        output = np.empty((*rows.shape, self.width), self.dtype)
        numbers = np.searchsorted(self.ends, rows, side="right")
        for number in map(int, np.unique(numbers)):
            in_file = numbers == number
            rows_of_file = rows[in_file] - self._first_row(number)
            distinct, places = np.unique(rows_of_file, return_inverse=True)

            # Rows that follow each other are read at once.
            gaps = np.flatnonzero(np.diff(distinct) != 1)
            parts = []
            for consecutive in np.split(distinct, gaps + 1):
                first = int(consecutive[0])
                last = int(consecutive[-1])
                parts.append(self._read(number, first, last + 1))
            output[in_file] = np.concatenate(parts)[places]
        return output

    def _row_numbers(self, key: Any) -> NDArray[np.integer]:
        """Return the non-negative row indices that a number, an array of numbers or a mask selects."""
        import numpy as np

        rows = np.asarray(key)
        if rows.dtype == bool:
            if rows.shape != (len(self),):
                raise IndexError(
                    f"found a mask of shape {rows.shape}, expected ({len(self)},)"
                )
            rows = np.flatnonzero(rows)
        if rows.size == 0:
            rows = rows.astype(np.int64)
        if not np.issubdtype(rows.dtype, np.integer):
            raise TypeError(
                f"rows are chosen by whole numbers, slices or masks, found {key!r}"
            )
        if rows.size and not -len(self) <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"found a row outside of 0 to {len(self) - 1}")
        return np.where(rows < 0, rows + len(self), rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all vectors in memory."""
        if copy is False:
            raise ValueError(
                "the vectors of several files cannot be one array without a copy"
            )
        # `rows` returns memory of its own, so that nothing is copied if it has this type already.
        return self.rows(0, len(self)).astype(dtype or self.dtype, copy=False)

    def _read(
        self,
        number: int,
        first: int,
        last: int,
    ) -> NDArray[Any]:
        """Return the rows from `first` to `last` of a file. Raises `RunError` if it is missing or damaged."""
        import numpy as np

        file = self.files[number]
        count = (last - first) * self.width
        try:
            layout = self._layout(number)
            offset = layout.start + first * self.width * self.dtype.itemsize
            values = np.fromfile(file, self.dtype, count, offset=offset)
            return values.reshape(last - first, self.width)
        except (OSError, ValueError) as error:
            raise RunError(
                f"`{file}` is missing or damaged ({error}); start the same `sentbed encode` again"
            ) from error

    def _layout(self, number: int) -> NpyLayout:
        """Return the layout of a file. Raises `ValueError` if its shape is not what was written."""
        layout = NpyLayout.of(self.files[number], self.dtype)
        rows = int(self.ends[number]) - self._first_row(number)
        if (layout.rows, layout.width) != (rows, self.width):
            raise ValueError(
                f"found {layout.rows} rows of {layout.width}, expected {rows} of {self.width}"
            )
        return layout
