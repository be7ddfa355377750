"""Texts that stay on disk, in a memory-mapped Arrow file."""

from __future__ import annotations

import hashlib
import json
import sys
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import attrs
from sentbed import DataError, RunError
from sentbed.helpers import CACHE_VARIABLE, atomic_file, cache_root, sha256
from sentbed.protocols import Dataset

from sentbed_data.library_formats import ARROW, arrow_batches, require, unreadable_arrow
from sentbed_data.readers import fault
from sentbed_data.text_formats import position

BATCH_ROWS = 4096
"""Rows per record batch when writing."""

BATCH_CHARACTERS = 1 << 22
"""Characters after which a record batch ends early."""

_LAYOUT = 1
"""Version of the layout of cached files."""


@attrs.frozen(eq=False)
class StreamedTable(Dataset):
    """A `Dataset` over memory-mapped record batches: only the requested rows are read."""

    fields: Mapping[str, int]
    """Column -> index of its field in the batches."""
    fingerprint: str
    """SHA-256 over the content of the source file and all options for reading it."""
    batches: Sequence[Any]
    """`pyarrow.RecordBatch`es whose fields are texts."""
    ends: Sequence[int] = attrs.field(init=False)
    """For each batch, the number of rows up to its end."""

    @ends.default
    def _ends(self) -> list[int]:
        return list(accumulate(batch.num_rows for batch in self.batches))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.fields)

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def rows(self, indices: Sequence[int], epoch: int = 0) -> dict[str, list[str]]:
        """Return the texts of these rows, by column; the same in every epoch."""
        # Not `take`: it first copies all chunks into one, and it is slower for single rows.
        places = []
        for index in indices:
            number = bisect_right(self.ends, index)
            batch = self.batches[number]
            places.append((batch, index - self.ends[number] + batch.num_rows))
        texts = {
            field: [batch.column(field)[row].as_py() for batch, row in places]
            for field in set(self.fields.values())
        }
        return {column: texts[field] for column, field in self.fields.items()}

    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Yield every text, column by column; a field under two names counts once."""
        wanted = (field for column, field in self.fields.items() if columns is None or column in columns)
        for field in dict.fromkeys(wanted):
            for batch in self.batches:
                column = batch.column(field)
                for start in range(0, len(column), BATCH_ROWS):
                    yield from column.slice(start, BATCH_ROWS).to_pylist()


def open_streamed(
    path: Path,
    names: Sequence[str],
    columns: Mapping[str, int],
    rows: Callable[[], Iterator[Sequence[str]]],
    reading: Mapping[str, Any],
) -> StreamedTable:
    """Map the texts of `path` into memory: the file itself if possible, else a copy in the cache.

    `names` are the wanted columns of the file, `columns` maps each column of the data set to its index in
    `names`; `rows` reads the file strictly, with the parameters `reading`.

    Raises:
        DataError: as `rows` does.
        RunError: if the cache cannot be written.
    """
    require("pyarrow", "arrow")
    content = sha256(path)
    described = [_LAYOUT, content, path.suffix.lower(), list(names), dict(reading)]
    key = hashlib.sha256(json.dumps(described).encode()).hexdigest()
    if path.suffix.lower() == ARROW and (batches := _mapped_texts(path, names, reading["limit"])):
        return StreamedTable(columns, key, batches)
    cached = cache_root() / "texts" / f"{key}{ARROW}"
    batches = _mapped(cached)
    if batches is None:
        _write(cached, len(names), _unchanged(rows(), path, content))
        batches = _mapped(cached)
        if batches is None:
            raise RunError(f"cannot read `{cached}`, which was just written; check the disk")
    return StreamedTable(columns, key, batches)


def _unchanged(rows: Iterator[Sequence[str]], path: Path, content: str) -> Iterator[Sequence[str]]:
    """Yield the rows; raises `DataError` at the end if the file no longer has the hash `content`."""
    yield from rows
    if sha256(path) != content:
        raise DataError("the file changed while it was read; run again when it is complete", path)


def _write(path: Path, width: int, rows: Iterator[Sequence[str]]) -> None:
    """Write rows of `width` texts, one record batch at a time; the file appears atomically."""
    import pyarrow

    schema = pyarrow.schema([(str(number), pyarrow.string()) for number in range(width)])
    try:
        with atomic_file(path) as stream, pyarrow.ipc.new_file(stream, schema) as writer:
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
    except RunError as error:
        raise RunError(f"{error}, with the environment variable `{CACHE_VARIABLE}`") from error


def _batch(rows: Sequence[Sequence[str]], schema: Any) -> Any:
    import pyarrow

    return pyarrow.record_batch(
        [pyarrow.array(texts, pyarrow.string()) for texts in zip(*rows, strict=True)], schema=schema
    )


def _mapped(path: Path) -> list[Any] | None:
    """Return the record batches of a cached file, or None if it is missing or incomplete."""
    import pyarrow

    try:
        file = pyarrow.ipc.open_file(pyarrow.memory_map(str(path)))
        return [file.get_batch(number) for number in range(file.num_record_batches)]
    except (pyarrow.ArrowException, OSError):
        # A truncated file has no footer; it is written again.
        return None


def _mapped_texts(path: Path, names: Sequence[str], limit: int | None) -> list[Any] | None:
    """Return the wanted fields of an Arrow file, every text checked, if they can be used in place.

    Return None if they cannot: compressed, or not stored as plain strings.

    Raises:
        DataError: if a text is empty or missing; with its row.
    """
    import pyarrow

    batches: list[Any] = []
    left = sys.maxsize if limit is None else limit
    try:
        content = pyarrow.memory_map(str(path)).read_buffer()
        schema, found = arrow_batches(content)
        fields = [position(name, schema.names, path, None) for name in names]
        if any(schema.types[field] not in (pyarrow.string(), pyarrow.large_string()) for field in fields):
            return None
        start = 0
        for batch in found:
            texts = batch.select(fields).slice(0, left)
            left -= texts.num_rows
            buffers = (buffer for column in texts.columns for buffer in column.buffers() if buffer)
            if any(not 0 <= buffer.address - content.address < content.size for buffer in buffers):
                return None
            _require_texts(texts, names, path, start)
            start += texts.num_rows
            batches.append(texts)
            if not left:
                break
    except (pyarrow.ArrowException, OSError) as error:
        raise unreadable_arrow(path, error) from error
    # The strict reader refuses a file without rows.
    return batches if any(batch.num_rows for batch in batches) else None


def _require_texts(batch: Any, names: Sequence[str], path: Path, start: int) -> None:
    """Check that no text of a batch is missing or blank, one slice at a time to save memory."""
    from pyarrow import compute

    batch.validate(full=True)
    for first in range(0, batch.num_rows, BATCH_ROWS):
        for name, column in zip(names, batch.slice(first, BATCH_ROWS).columns, strict=True):
            lengths = compute.binary_length(compute.utf8_trim_whitespace(column))
            bad = compute.index(compute.fill_null(compute.equal(lengths, 0), True), True).as_py()
            if bad >= 0:
                message = fault(column[bad].as_py())
                raise DataError(f"row {start + first + bad + 1}, column `{name}`: {message}", path)
