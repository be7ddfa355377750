"""Readers of Parquet and Arrow files, which need the optional library pyarrow."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from sentbed import DataError
from sentbed.helpers import foreign

from sentbed_data.csv_tsv_jsonl import Rows, column_index

PARQUET = ".parquet"
"""Suffix of a Parquet file."""

ARROW = ".arrow"
"""Suffix of a file in one of Arrow's IPC formats (file or stream)."""

PARQUET_ROWS = 256
"""Largest number of rows that are decoded at a time. It is small, since a repeated text may take a few bytes in
the file, and a megabyte for each row in memory."""

MOST_UNPACKED = 1 << 28
MOST_GROWTH = 1_000
"""Largest decoded size of a file: `MOST_UNPACKED` bytes or `MOST_GROWTH` times the file's size, if that is
more."""

_USES = {
    "hub": "reading data of the hub",
    "parquet": "reading a Parquet file",
    "arrow": "reading an Arrow file, or leaving the texts on disk (`stream`),",
    "sentences": "splitting text into sentences",
    "wordnet": "replacing words by synonyms",
}


def require_package(package: str, extra: str) -> None:
    """Raise `DataError` if `package`, which the `extra` of this distribution installs, is missing."""
    if importlib.util.find_spec(package) is None:
        raise DataError(
            f"{_USES[extra]} needs the package `{package}`, which is not installed; "
            f"run `pip install 'sentbed-data[{extra}]'`"
        )


def parquet_rows(path: Path, names: Sequence[str]) -> Rows:
    """Yield the number of each row of a Parquet file, and the row's values in the columns `names`."""
    from pyarrow import parquet

    readable = foreign(
        partial(DataError, file=path),
        "the file cannot be read as Parquet",
        "write it again",
    )
    with readable, parquet.ParquetFile(path) as file:
        columns = file.schema_arrow.names
        for name in names:
            column_index(name, columns, path, None)
        # A name may be there twice, and a batch has each column once.
        batches = file.iter_batches(PARQUET_ROWS, columns=sorted(set(names)))
        yield from _numbered(_bounded(batches, path), names)


def _bounded(batches: Iterable[Any], path: Path) -> Iterator[Any]:
    """Yield the rows of `batches` in batches of at most `PARQUET_ROWS` rows.

    Raises:
        DataError: if the batches have far more bytes than is plausible for the size of the file.
    """
    largest = max(MOST_UNPACKED, MOST_GROWTH * path.stat().st_size)
    unpacked = 0
    for batch in batches:
        for start in range(0, batch.num_rows, PARQUET_ROWS):
            rows = batch.slice(start, PARQUET_ROWS)
            for column in rows.columns:
                unpacked += _unpacked_bytes(column, path)
            if unpacked > largest:
                raise DataError(
                    f"the file unpacks to more than {largest:,} bytes, over {MOST_GROWTH} times its size; "
                    "repeat texts less often, or write it as JSON Lines",
                    path,
                )

            yield rows


def _unpacked_bytes(column: Any, path: Path) -> int:
    """Return the number of bytes of a column's values; a value that several rows share counts for each row.

    Raises:
        DataError: if the column is run-end encoded: then a few bytes may stand for any number of rows.
    """
    import numpy as np
    import pyarrow

    if pyarrow.types.is_run_end_encoded(column.type):
        raise DataError(
            "a column is run-end encoded, expected plain texts; write it so", path
        )

    if pyarrow.types.is_dictionary(column.type):
        lengths = _text_lengths(column.dictionary)
        if lengths is not None:
            used = column.indices.drop_null().to_numpy(zero_copy_only=False)
            return int(column.indices.nbytes) + int(np.sum(lengths[used]))
    elif pyarrow.types.is_string_view(column.type):
        return int(np.sum(_text_lengths(column)))

    return int(column.nbytes)


def _text_lengths(values: Any) -> Any:
    """Return the number of bytes of each text in an array, `(n,)`; None if the array has no texts."""
    import numpy as np
    import pyarrow
    from pyarrow import compute

    if pyarrow.types.is_string_view(values.type):
        # A view takes 16 bytes, of which the first four are the length of the text.
        views = np.frombuffer(values.buffers()[1], np.int32)[::4]
        return views[values.offset : values.offset + len(values)].astype(np.int64)
    if pyarrow.types.is_string(values.type) or pyarrow.types.is_large_string(
        values.type
    ):
        lengths = compute.fill_null(compute.binary_length(values), 0)
        return lengths.to_numpy(zero_copy_only=False).astype(np.int64)

    return None


def arrow_rows(path: Path, names: Sequence[str]) -> Rows:
    """Yield the number of each row of an Arrow file, and the row's values in the columns `names`."""
    import pyarrow

    with readable_arrow(path), pyarrow.OSFile(str(path)) as source:
        schema, batches = arrow_batches(source)
        for name in names:
            column_index(name, schema.names, path, None)
        selected = (_validated(batch).select(sorted(set(names))) for batch in batches)
        yield from _numbered(_bounded(selected, path), names)


def arrow_batches(source: Any) -> tuple[Any, Iterator[Any]]:
    """Return the schema and the record batches of an open file or buffer, in either of Arrow's IPC formats."""
    import pyarrow

    if isinstance(source, pyarrow.Buffer):
        source = pyarrow.BufferReader(source)

    beginning = source.read(6)
    source.seek(0)
    if beginning == b"ARROW1":
        file = pyarrow.ipc.open_file(source)
        return file.schema, map(file.get_batch, range(file.num_record_batches))

    stream = pyarrow.ipc.open_stream(source)
    return stream.schema, iter(stream)


def readable_arrow(path: Path) -> AbstractContextManager[None]:
    """Return a context manager that turns exceptions of pyarrow into a `DataError` that names the file."""
    return foreign(
        partial(DataError, file=path),
        "the file cannot be read as Arrow IPC",
        "write it again",
    )


def _validated(batch: Any) -> Any:
    """Return a record batch, after a check of its content, which raises an exception of pyarrow."""
    batch.validate(full=True)
    return batch


def _numbered(batches: Iterable[Any], names: Sequence[str]) -> Rows:
    """Yield the number of each row of all batches, and the row's values in the columns `names`."""
    numbers = count(1)
    for batch in batches:
        values = [batch.column(name).to_pylist() for name in names]
        for row in zip(*values, strict=True):
            yield next(numbers), row
