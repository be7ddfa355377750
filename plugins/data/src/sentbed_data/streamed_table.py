"""Data sets whose texts stay on disk, in an Arrow file of the cache that is mapped into memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed.helpers import atomic_file, key_of, sha256, write_atomic
from sentbed.protocols import Dataset
from sentbed_common import BATCH_ROWS, cache_root, suffix_of


@attrs.frozen(eq=False)
class StreamedTable(Dataset):
    """Texts in an Arrow file, of which only the requested rows are read."""

    fields: Mapping[str, int]
    """Index in the file of each column, by name."""
    fingerprint: str
    """SHA-256 over the content of the source files and all options with which they are read."""
    table: Any
    """The file, as a `datasets.Dataset`, whose columns are named by their indices."""
    left_out: Mapping[str, int]
    """Number of rows of the source that were left out, by reason."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.fields)

    def __len__(self) -> int:
        return len(self.table)

    def rows(self, indices: Sequence[int], epoch: int = 0) -> dict[str, list[str]]:
        """Return the texts of these rows, by column; the same in every epoch."""
        rows = self.table[list(map(int, indices))]
        texts = {}
        for column, field in self.fields.items():
            texts[column] = rows[str(field)]

        return texts

    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Yield every text, column by column; what two columns share in the file is read once."""
        if columns is None:
            columns = self.columns

        fields: dict[int, None] = {}
        for column, field in self.fields.items():
            if column in columns:
                fields[field] = None

        for field in fields:
            table = self.table.select_columns(str(field))
            for batch in table.iter(BATCH_ROWS):
                yield from batch[str(field)]


def open_streamed(
    paths: Sequence[Path],
    fields: Mapping[str, int],
    rows: Callable[[Counter[str]], Iterator[Sequence[str]]],
    reading: Sequence[object],
) -> StreamedTable:
    """Return a data set of the rows of the files `paths`, which are written to a file of the cache if need be.

    `fields` maps each column of the data set to its index in a row. `rows` reads and checks the rows with the
    options `reading`, and counts in its argument the rows that it leaves out, by reason.

    Raises:
        DataError: if a file cannot be read or has an invalid row.
        RunError: if the cache cannot be written.
    """

    from datasets import Dataset as ArrowDataset

    contents = []
    for path in paths:
        contents.append((sha256(path), suffix_of(path.name)))

    key = key_of([contents, reading])
    cached = cache_root() / "texts" / f"{key}.arrow"
    counts = cached.with_suffix(".json")
    if not cached.is_file():
        left_out: Counter[str] = Counter()
        with atomic_file(cached) as stream:
            _write(stream, rows(left_out), 1 + max(fields.values()))
            write_atomic(counts, json.dumps(left_out))

    table = ArrowDataset.from_file(str(cached))
    return StreamedTable(fields, key, table, json.loads(counts.read_text()))


def _write(
    stream: Any,
    rows: Iterator[Sequence[str]],
    width: int,
) -> None:
    """Write rows of `width` texts in Arrow's format, batch by batch."""
    import pyarrow

    fields = []
    for number in range(width):
        fields.append((str(number), pyarrow.string()))

    schema = pyarrow.schema(fields)
    with pyarrow.ipc.new_stream(stream, schema) as writer:
        batch: list[Sequence[str]] = []
        for row in rows:
            batch.append(row)
            if len(batch) == BATCH_ROWS:
                writer.write_batch(_batch(batch, schema))
                batch = []

        if batch:
            writer.write_batch(_batch(batch, schema))


def _batch(rows: Sequence[Sequence[str]], schema: Any) -> Any:
    """Return rows of texts as a record batch."""
    import pyarrow

    columns = []
    for texts in zip(*rows, strict=True):
        columns.append(pyarrow.array(texts, pyarrow.string()))

    return pyarrow.record_batch(columns, schema=schema)
