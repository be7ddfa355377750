"""Texts in an Arrow file, which are read row by row at their positions in the file.

The file is not mapped into memory: if another process truncated a mapped file, the next access would kill this
process.
"""

from __future__ import annotations

import math
import os
import struct
import sys
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed import DataError

from sentbed_data.csv_tsv_jsonl import column_index
from sentbed_data.parquet_arrow import arrow_batches, readable_arrow
from sentbed_data.readers import problem_of_text

BATCH_ROWS = 4096
"""Largest number of rows in a record batch that is written, and of rows that are read at a time."""

_OUTSIDE = -1
"""Position of a buffer that is not in the file."""

_PAIRS = {4: struct.Struct("<2i"), 8: struct.Struct("<2q")}
"""Format of two consecutive offsets, by the size of an offset in bytes."""


@attrs.frozen(eq=False)
class OpenFile:
    """A file opened for random access; reading raises `DataError` if the file has changed."""

    path: Path
    descriptor: int
    state: tuple[int, int]
    """Size and modification time when the file was opened."""

    @classmethod
    def of(cls, path: Path) -> OpenFile:
        """Open a file, which is closed when the object is no longer used. Raises `OSError`."""
        descriptor = os.open(path, os.O_RDONLY)
        opened = cls(path, descriptor, _state_of(descriptor))
        weakref.finalize(opened, os.close, descriptor)
        return opened

    def read(self, start: int, size: int) -> bytes:
        """Return `size` bytes from position `start` on. Raises `DataError` if the file does not have them."""
        if 0 <= start <= start + size <= self.state[0]:
            content = os.pread(self.descriptor, size, start)
            if len(content) == size:
                return content

        raise self.changed()

    def require_unchanged(self) -> None:
        """Raise `DataError` if the file has changed since it was opened."""
        if _state_of(self.descriptor) != self.state:
            raise self.changed()

    def changed(self) -> DataError:
        """Return the error for a file that has changed."""
        return DataError(
            "the file changed while it was in use; run again when it is complete",
            self.path,
        )


def _state_of(descriptor: int) -> tuple[int, int]:
    """Return size and modification time of an open file."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns


@attrs.frozen
class Column:
    """Positions in a file at which the texts of one column of a record batch are stored."""

    offsets: int
    """Position of the offsets; there is one more offset than there are rows."""
    width: int
    """Size of an offset in bytes: 4 or 8."""
    data: int
    """Position of the texts, in UTF-8."""
    valid: int | None
    """Position of the validity bits, one per text; None if no text is missing."""

    def text(self, file: OpenFile, row: int) -> str:
        """Return the text in a row."""
        stored = file.read(self.offsets + row * self.width, 2 * self.width)
        start, end = _PAIRS[self.width].unpack(stored)
        return file.read(self.data + start, end - start).decode()

    def array(
        self,
        file: OpenFile,
        first: int,
        rows: int,
    ) -> Any:
        """Return the texts in rows `first` to `first + rows - 1` as an Arrow array.

        `first` is a multiple of 8, since validity bits are read by whole bytes.
        """
        import numpy as np
        import pyarrow

        string_type = pyarrow.large_string()
        if self.width == 4:
            string_type = pyarrow.string()

        validity = None
        if self.valid is not None:
            size = math.ceil(rows / 8)
            validity = pyarrow.py_buffer(file.read(self.valid + first // 8, size))

        stored = file.read(self.offsets + first * self.width, (rows + 1) * self.width)
        offsets = np.frombuffer(stored, f"<i{self.width}")
        start, end = int(offsets[0]), int(offsets[-1])
        content = file.read(self.data + start, end - start)

        buffers = [
            validity,
            pyarrow.py_buffer(offsets - offsets[0]),
            pyarrow.py_buffer(content),
        ]
        array = pyarrow.Array.from_buffers(string_type, rows, buffers)
        # The array is validated before it is read: wrong offsets would lead outside the buffer.
        array.validate(full=True)
        return array


@attrs.frozen
class Batch:
    """Number of rows of a record batch in a file, and the positions of its columns."""

    rows: int
    columns: tuple[Column, ...]

    def slices(self) -> Iterator[tuple[int, int]]:
        """Yield the first row and the number of rows of each part of the batch that is read at a time."""
        for first in range(0, self.rows, BATCH_ROWS):
            yield first, min(BATCH_ROWS, self.rows - first)


def open_arrow_file(
    path: Path,
    names: Sequence[str],
    limit: int | None,
) -> tuple[OpenFile, list[Batch]] | None:
    """Return an Arrow file and its batches, after a check of every text in the columns `names`.

    Return None if the texts cannot be read in place: they are compressed or no plain strings, or there are no
    rows.

    Raises:
        DataError: if a text is not accepted by `problem_of_text`, with the text's row; or if a column is missing.
    """
    if limit is None:
        limit = sys.maxsize

    with readable_arrow(path):
        file = OpenFile.of(path)
        batches = batches_of(file, names, limit)
        if not batches:
            # The file will be read by `rows`, which refuses a file without rows.
            return None

        start = 0
        for batch in batches:
            for first, rows in batch.slices():
                for name, column in zip(names, batch.columns, strict=True):
                    texts = column.array(file, first, rows).to_pylist()
                    _require_texts(texts, name, path, start + first + 1)

            start += batch.rows

    return file, batches


def _require_texts(
    texts: Sequence[object],
    column: str,
    path: Path,
    first_row: int,
) -> None:
    """Raise `DataError` for the first text that `problem_of_text` refuses.

    `first_row` is the row of the first text in the file.
    """
    for row, text in enumerate(texts, first_row):
        if problem := problem_of_text(text):
            raise DataError(f"row {row}, column `{column}`: {problem}", path)


def batches_of(
    file: OpenFile,
    names: Sequence[str],
    limit: int,
) -> list[Batch] | None:
    """Return the positions of the columns `names` in the first `limit` rows, by batch.

    Return None if the columns are not stored as plain strings without compression.

    Raises:
        DataError: if there is no such column.
        ArrowException, OSError: if the file is not valid Arrow IPC.
    """
    import pyarrow

    # The file is mapped only in this function, which reads no texts, only the descriptions of the batches.
    content = pyarrow.memory_map(str(file.path)).read_buffer()
    schema, record_batches = arrow_batches(content)
    fields = [column_index(name, schema.names, file.path, None) for name in names]
    widths = {pyarrow.string(): 4, pyarrow.large_string(): 8}
    for field in fields:
        if schema.types[field] not in widths:
            return None

    batches: list[Batch] = []
    for batch in record_batches:
        columns = []
        for column in batch.select(fields).columns:
            places = [_position_in(content, buffer) for buffer in column.buffers()]
            if _OUTSIDE in places:
                return None

            valid, offsets, data = places
            columns.append(Column(offsets or 0, widths[column.type], data or 0, valid))

        rows = min(batch.num_rows, limit)
        limit -= rows
        if rows:
            batches.append(Batch(rows, tuple(columns)))

        if not limit:
            break

    return batches


def _position_in(content: Any, buffer: Any) -> int | None:
    """Return the position of a buffer in the content of a file; None if there is no buffer.

    Return `_OUTSIDE` for a buffer that was decompressed into memory.
    """
    if not buffer:
        return None

    place: int = buffer.address - content.address
    if not 0 <= place < content.size:
        return _OUTSIDE

    return place
