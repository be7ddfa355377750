"""Data sets whose texts stay on disk, in an Arrow file that is read row by row.

The file is not mapped into memory: if another process truncated a mapped file, the next access would kill this
process.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import sys
import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import attrs
from sentbed import DataError, RunError
from sentbed.helpers import atomic_file, read_file, sha256, write_atomic
from sentbed.protocols import Dataset
from sentbed_common import CACHE_VARIABLE, cache_root

from sentbed_data.csv_tsv_jsonl import column_index
from sentbed_data.parquet_arrow import (
    ARROW,
    arrow_batches,
    readable_arrow,
    require_package,
)
from sentbed_data.readers import problem_of_text, suffix_of

BATCH_ROWS = 4096
"""Largest number of rows in a record batch that is written."""

BATCH_CHARACTERS = 1 << 22
"""Number of characters of texts after which a record batch ends, even with fewer than `BATCH_ROWS` rows."""

_OUTSIDE = -1
"""Position of a buffer that is not in the file."""

_LAYOUT = 2
"""Version of the layout of cached files."""

_LEFT_OUT = "left_out"
"""Key of the counts of left-out rows, in the metadata of a cached file's last batch, which has no rows."""

_PAIRS = {4: struct.Struct("<2i"), 8: struct.Struct("<2q")}
"""Format of two consecutive offsets, by the size of an offset in bytes."""


@attrs.frozen(eq=False)
class _OpenFile:
    """A file opened for random access; reading raises `DataError` if the file has changed."""

    path: Path
    descriptor: int
    state: tuple[int, int]
    """Size and modification time when the file was opened."""

    @classmethod
    def of(cls, path: Path) -> _OpenFile:
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
class _Column:
    """Positions in a file at which the texts of one column of a record batch are stored."""

    offsets: int
    """Position of the offsets; there is one more offset than there are rows."""
    width: int
    """Size of an offset in bytes: 4 or 8."""
    data: int
    """Position of the texts, in UTF-8."""
    valid: int | None
    """Position of the validity bits, one per text; None if no text is missing."""

    def text(self, file: _OpenFile, row: int) -> str:
        """Return the text in a row."""
        stored = file.read(self.offsets + row * self.width, 2 * self.width)
        start, end = _PAIRS[self.width].unpack(stored)
        return file.read(self.data + start, end - start).decode()

    def array(
        self,
        file: _OpenFile,
        first: int,
        rows: int,
    ) -> Any:
        """Return the texts in rows `first` (a multiple of 8) to `first + rows - 1` as an Arrow array."""
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
class _Batch:
    """Number of rows of a record batch in a file, and the positions of its columns."""

    rows: int
    columns: tuple[_Column, ...]

    def slices(self) -> Iterator[tuple[int, int]]:
        """Yield the first row and the number of rows of each part of the batch that is read at a time."""
        for first in range(0, self.rows, BATCH_ROWS):
            yield first, min(BATCH_ROWS, self.rows - first)


@attrs.frozen(eq=False)
class StreamedTable(Dataset):
    """A `Dataset` of record batches on disk; only the requested rows are read."""

    fields: Mapping[str, int]
    """Index in `_Batch.columns` of each column, by name."""
    fingerprint: str
    """SHA-256 over the content of the source files and all options with which they are read."""
    file: _OpenFile
    batches: Sequence[_Batch]
    left_out: Mapping[str, int] = attrs.field(factory=dict)
    """Number of rows of the source that were left out, by reason."""
    ends: Sequence[int] = attrs.field(init=False)
    """Number of rows in the file up to the end of each batch."""

    @ends.default
    def _ends(self) -> list[int]:
        return list(accumulate(batch.rows for batch in self.batches))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.fields)

    def __len__(self) -> int:
        if not self.ends:
            return 0

        return self.ends[-1]

    def rows(self, indices: Sequence[int], epoch: int = 0) -> dict[str, list[str]]:
        """Return the texts of these rows, by column; the same in every epoch.

        Raises:
            DataError: if the file has changed since it was opened.
        """
        texts: dict[int, list[str]] = {}
        for field in self.fields.values():
            texts[field] = []

        try:
            for index in indices:
                number = bisect_right(self.ends, index)
                batch = self.batches[number]
                row = index - self.ends[number] + batch.rows
                for field, texts_of_field in texts.items():
                    texts_of_field.append(batch.columns[field].text(self.file, row))
        except UnicodeDecodeError as error:
            raise self.file.changed() from error

        self.file.require_unchanged()
        return {column: texts[field] for column, field in self.fields.items()}

    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Yield every text, column by column. If two columns are the same column of the file, it is read once.

        Raises:
            DataError: if the file has changed since it was opened.
        """
        import pyarrow

        if columns is None:
            columns = self.columns

        fields = [field for column, field in self.fields.items() if column in columns]
        for field in dict.fromkeys(fields):
            for batch in self.batches:
                for first, rows in batch.slices():
                    try:
                        array = batch.columns[field].array(self.file, first, rows)
                        values = array.to_pylist()
                    except pyarrow.ArrowException as error:
                        raise self.file.changed() from error

                    self.file.require_unchanged()
                    yield from values


def open_streamed(
    paths: Sequence[Path],
    names: Sequence[str],
    columns: Mapping[str, int],
    rows: Callable[[Counter[str]], Iterator[Sequence[str]]],
    reading: Mapping[str, Any],
) -> StreamedTable:
    """Return a data set whose texts stay on disk. They are read from the files `paths` or from a cached copy.

    `names` are the columns that are read from the files; `columns` maps each column of the data set to its
    index in `names`. `rows` is a function that reads and checks the rows of the files, with the options
    `reading`, and counts in its argument the rows that it leaves out, by reason. The file itself is used if
    there is one file, and it is an Arrow file of plain strings without compression.

    Raises:
        DataError: if a file cannot be read or has an invalid row.
        RunError: if the cache cannot be written.
    """
    require_package("pyarrow", "arrow")
    digests: dict[Path, str] = {}
    contents = []
    formats = []
    for path in paths:
        digests[path] = sha256(path)
        contents.append(digests[path])
        # The suffixes are part of the key: in another format, the same bytes have other rows.
        formats.append((suffix_of(path.name), path.suffix.lower()))

    described = [_LAYOUT, contents, formats, list(names), dict(reading)]
    key = hashlib.sha256(json.dumps(described).encode()).hexdigest()
    if len(paths) == 1 and paths[0].suffix.lower() == ARROW:
        table_in_file = _open_arrow_file(paths[0], names, reading["limit"])
        if table_in_file is not None:
            return StreamedTable(columns, key, *table_in_file)

    cached = cache_root() / "texts" / f"{key}{ARROW}"
    table = None
    # The hash is compared first, since pyarrow would follow wrong offsets outside of the file.
    if _is_intact(cached):
        table = _open_cached(cached, len(names))

    if table is None:
        left_out: Counter[str] = Counter()
        _write(cached, len(names), _unchanged(rows(left_out), digests), left_out)
        table = _open_cached(cached, len(names))

    if table is None:
        raise RunError(
            f"cannot read `{cached}`, which was just written; check the disk"
        )

    return StreamedTable(columns, key, *table)


def _unchanged(
    rows: Iterator[Sequence[str]], contents: Mapping[Path, str]
) -> Iterator[Sequence[str]]:
    """Yield the rows. Raises `DataError` at the end if a file no longer has its hash in `contents`."""
    yield from rows
    for path, content in contents.items():
        if sha256(path) != content:
            raise DataError(
                "the file changed while it was read; run again when it is complete",
                path,
            )


def _write(
    path: Path,
    width: int,
    rows: Iterator[Sequence[str]],
    left_out: Mapping[str, int],
) -> None:
    """Write rows of `width` texts, batch by batch, and then the counts in `left_out`.

    The file appears atomically, after a file with its hash.
    """
    import pyarrow

    fields = []
    for number in range(width):
        fields.append(pyarrow.field(str(number), pyarrow.string()))

    schema = pyarrow.schema(fields)
    try:
        with atomic_file(path) as stream:
            _write_batches(stream, schema, rows, left_out)
            stream.seek(0)
            digest = hashlib.file_digest(stream, "sha256")  # type: ignore[arg-type]  # it has `readinto`
            # The hash is written first: if this process is killed in between, an older file counts as damaged.
            write_atomic(_hash_of(path), f"{digest.hexdigest()}  {path.name}\n")
    except RunError as error:
        raise RunError(
            f"{error}, with the environment variable `{CACHE_VARIABLE}`"
        ) from error


def _hash_of(path: Path) -> Path:
    """Return the path of the file with the SHA-256 of a cached file, in the format of `sha256sum`."""
    return path.with_name(f"{path.name}.sha256")


def _is_intact(path: Path) -> bool:
    """Whether a cached file exists and has the recorded hash."""
    try:
        return read_file(_hash_of(path)).decode() == f"{sha256(path)}  {path.name}\n"
    except (OSError, ValueError, DataError):
        return False


def _write_batches(
    stream: BinaryIO,
    schema: Any,
    rows: Iterator[Sequence[str]],
    left_out: Mapping[str, int],
) -> None:
    """Write rows as record batches, and then an empty batch whose metadata has the counts in `left_out`."""
    import pyarrow

    with pyarrow.ipc.new_file(stream, schema) as writer:
        pending: list[Sequence[str]] = []
        characters = 0
        for row in rows:
            pending.append(row)
            characters += sum(map(len, row))
            if len(pending) == BATCH_ROWS or characters > BATCH_CHARACTERS:
                writer.write_batch(_batch(pending, schema))
                pending, characters = [], 0

        if pending:
            writer.write_batch(_batch(pending, schema))

        nothing = pyarrow.RecordBatch.from_pylist([], schema=schema)
        writer.write_batch(nothing, custom_metadata={_LEFT_OUT: json.dumps(left_out)})


def _batch(rows: Sequence[Sequence[str]], schema: Any) -> Any:
    """Return rows of texts as a record batch."""
    import pyarrow

    columns = []
    for texts in zip(*rows, strict=True):
        columns.append(pyarrow.array(texts, pyarrow.string()))

    return pyarrow.record_batch(columns, schema=schema)


def _open_cached(
    path: Path, width: int
) -> tuple[_OpenFile, list[_Batch], dict[str, int]] | None:
    """Return a cached file, its batches and its counts of left-out rows; None if it cannot be read."""
    import pyarrow

    try:
        file = _OpenFile.of(path)
        batches = _batches(file, list(map(str, range(width))), sys.maxsize)
        with (
            pyarrow.OSFile(str(path)) as source,
            pyarrow.ipc.open_file(source) as reader,
        ):
            last = reader.get_batch_with_custom_metadata(reader.num_record_batches - 1)

        left_out = json.loads(last.custom_metadata[_LEFT_OUT])
    except (pyarrow.ArrowException, OSError, DataError):
        return None

    if batches is None:
        return None

    return file, batches, left_out


def _open_arrow_file(
    path: Path,
    names: Sequence[str],
    limit: int | None,
) -> tuple[_OpenFile, list[_Batch]] | None:
    """Return an Arrow file and its batches, after a check of every text in the columns `names`.

    Return None if the texts cannot be read in place: they are compressed or no plain strings, or there are no
    rows.

    Raises:
        DataError: if a text is not accepted by `problem_of_text`, with the text's row; or if a column is missing.
    """
    if limit is None:
        limit = sys.maxsize

    with readable_arrow(path):
        file = _OpenFile.of(path)
        batches = _batches(file, names, limit)
        if not batches:
            # The file will be read by `rows`, which refuses a file without rows.
            return None

        start = 0
        for batch in batches:
            for first, rows in batch.slices():
                for name, column in zip(names, batch.columns, strict=True):
                    texts = column.array(file, first, rows).to_pylist()
                    for row, text in enumerate(texts, start + first + 1):
                        if problem := problem_of_text(text):
                            place = f"row {row}, column `{name}`"
                            raise DataError(f"{place}: {problem}", path)

            start += batch.rows

    return file, batches


def _batches(
    file: _OpenFile,
    names: Sequence[str],
    limit: int,
) -> list[_Batch] | None:
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

    batches: list[_Batch] = []
    for batch in record_batches:
        columns = []
        for column in batch.select(fields).columns:
            places = [_position_in(content, buffer) for buffer in column.buffers()]
            if _OUTSIDE in places:
                return None

            valid, offsets, data = places
            columns.append(_Column(offsets or 0, widths[column.type], data or 0, valid))

        rows = min(batch.num_rows, limit)
        limit -= rows
        if rows:
            batches.append(_Batch(rows, tuple(columns)))

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
