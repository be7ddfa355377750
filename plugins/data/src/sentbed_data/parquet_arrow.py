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
        yield from _numbered(batches, names)


def arrow_rows(path: Path, names: Sequence[str]) -> Rows:
    """Yield the number of each row of an Arrow file, and the row's values in the columns `names`."""
    import pyarrow

    with readable_arrow(path), pyarrow.OSFile(str(path)) as source:
        schema, batches = arrow_batches(source)
        for name in names:
            column_index(name, schema.names, path, None)
        selected = (_validated(batch).select(sorted(set(names))) for batch in batches)
        yield from _numbered(selected, names)


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
