"""Data sets whose texts stay on disk: in an Arrow file of the user, or in a copy in the cache."""

from __future__ import annotations

import hashlib
import json
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import attrs
from sentbed import DataError, RunError
from sentbed.helpers import atomic_file, key_of, sha256, write_atomic
from sentbed.protocols import Dataset
from sentbed_common import CACHE_VARIABLE, cache_root

from sentbed_data.arrow_texts import (
    BATCH_ROWS,
    Batch,
    OpenFile,
    batches_of,
    open_arrow_file,
)
from sentbed_data.parquet_arrow import ARROW, require_package
from sentbed_data.readers import suffix_of

BATCH_CHARACTERS = 1 << 22
"""Number of characters of texts after which a record batch ends, even with fewer than `BATCH_ROWS` rows.

Offsets have 32 bits, and so the texts of a batch less than 2 GiB; `BATCH_ROWS` texts of a megabyte have more.
"""

_LAYOUT = 2
"""Version of the layout of cached files."""

_LEFT_OUT = "left_out"
"""Key of the counts of left-out rows, in the metadata of a cached file's last batch, which has no rows."""


@attrs.frozen(eq=False)
class StreamedTable(Dataset):
    """A `Dataset` of record batches on disk; only the requested rows are read."""

    fields: Mapping[str, int]
    """Index in `Batch.columns` of each column, by name."""
    fingerprint: str
    """SHA-256 over the content of the source files and all options with which they are read."""
    file: OpenFile
    record_batches: Sequence[Batch]
    left_out: Mapping[str, int] = attrs.field(factory=dict)
    """Number of rows of the source that were left out, by reason."""
    ends: Sequence[int] = attrs.field(init=False)
    """Number of rows in the file up to the end of each batch."""

    @ends.default
    def _ends(self) -> list[int]:
        return list(accumulate(batch.rows for batch in self.record_batches))

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
                batch = self.record_batches[number]
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
            for batch in self.record_batches:
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
    there is one file, it is an Arrow file of plain strings without compression, and no row is left out.

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
    key = key_of(described)
    is_arrow = len(paths) == 1 and paths[0].suffix.lower() == ARROW
    if is_arrow and "blank" not in reading:
        table_in_file = open_arrow_file(paths[0], names, reading["limit"])
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
        return _hash_of(path).read_text() == f"{sha256(path)}  {path.name}\n"
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
) -> tuple[OpenFile, list[Batch], dict[str, int]] | None:
    """Return a cached file, its batches and its counts of left-out rows; None if it cannot be read."""
    import pyarrow

    try:
        file = OpenFile.of(path)
        batches = batches_of(file, list(map(str, range(width))), sys.maxsize)
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
