"""Reading and checking of the rows of a shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from sentbed.errors import DataError
from sentbed_common import decoded_line, json_object, open_text

from sentbed_corpus.input_files import (
    Shard,
    kind_of,
    parquet_file,
    require_columns,
)

PARQUET_ROWS = 256
"""Number of rows of a Parquet file that are decoded at a time. It is small because a repeated text may take a few
bytes in the file, but a megabyte per row in memory."""


def read_shard(
    shard: Shard,
    column: str,
    keep: Sequence[str],
) -> tuple[list[str], Mapping[str, Any]]:
    """Return a shard's texts, and its columns `keep`: Arrow arrays for a Parquet file, lists for other files.

    Raises:
        DataError: if a row cannot be used.
    """
    if kind_of(Path(shard.source.path)) == "parquet":
        return _parquet_rows(shard, column, keep)
    return _line_rows(shard, column, keep)


def _line_rows(
    shard: Shard,
    column: str,
    keep: Sequence[str],
) -> tuple[list[str], dict[str, list[Any]]]:
    """Return a shard's texts and kept columns from a file of lines."""
    path = shard.source.path
    kind = kind_of(Path(path))
    texts: list[str] = []
    kept: dict[str, list[Any]] = {name: [] for name in keep}
    with open_text(path) as stream:
        stream.seek(shard.start)
        for number, line in enumerate(islice(stream, shard.rows), start=shard.row + 1):
            if kind == "text":
                texts.append(text_row(line, path, number))
            else:
                text, row = json_row(line, path, number, column, keep)
                texts.append(text)
                for name, values in kept.items():
                    values.append(row[name])

    return texts, kept


def text_row(
    line: bytes,
    file: object,
    number: int,
) -> str:
    """Return a line without its line ending, and the first line without a byte order mark.

    Raises:
        DataError: if the line is not UTF-8, or has a NUL byte.
    """
    return decoded_line(line, file, number).rstrip("\r\n")


def json_row(
    line: bytes,
    file: object,
    number: int,
    column: str,
    keep: Sequence[str],
) -> tuple[str, dict[str, Any]]:
    """Return the text in a line of JSON, and the whole object. Raises `DataError` if the line cannot be used."""
    row = json_object(text_row(line, file, number), file, number)
    require_columns((column, *keep), list(row), file, number)
    value = row[column]
    if not isinstance(value, str):
        shown = repr(value)
        if value is None:
            shown = "null"
        raise DataError(
            f"`{column}` is {shown}, expected a text; take the row out, or mend it",
            file,
            number,
        )
    return value, row


def _parquet_rows(
    shard: Shard,
    column: str,
    keep: Sequence[str],
) -> tuple[list[str], dict[str, Any]]:
    import pyarrow

    path = shard.source.path
    columns = sorted({column, *keep})
    with parquet_file(path) as file:
        batches = list(_batches(file, shard, columns))
        table = pyarrow.Table.from_batches(batches)

    first = shard.row + 1
    texts = parquet_texts(table.column(column), path, first, column)
    kept = {name: table.column(name) for name in keep}
    return texts, kept


def parquet_texts(
    values: Any,
    file: object,
    first: int,
    column: str,
) -> list[str]:
    """Return the texts of an Arrow array, whose first value is row `first` of the file.

    Raises:
        DataError: for a null.
    """
    import pyarrow

    texts: list[str] = values.cast(pyarrow.large_string()).to_pylist()
    for number, text in enumerate(texts, first):
        if text is None:
            raise DataError(
                f"`{column}` is null in row {number}, expected a text; take the row out, or mend it",
                file,
            )
    return texts


def _batches(
    file: Any,
    shard: Shard,
    columns: Sequence[str],
) -> Iterator[Any]:
    """Yield the rows of a shard; only the row groups that contain them are read."""
    stop = shard.row + shard.rows
    first = 0
    groups = []
    skipped = 0
    for number in range(file.num_row_groups):
        rows = file.metadata.row_group(number).num_rows
        if first + rows <= shard.row:
            skipped += rows
        elif first < stop:
            groups.append(number)
        first += rows

    position = skipped
    for batch in file.iter_batches(
        PARQUET_ROWS, row_groups=groups, columns=list(columns)
    ):
        start = max(shard.row - position, 0)
        end = min(stop - position, batch.num_rows)
        if start < end:
            yield batch.slice(start, end - start)
        position += batch.num_rows
        if position >= stop:
            return


def require_parquet_columns(
    file: Any,
    path: object,
    column: str,
    keep: Sequence[str],
) -> None:
    """Raise `DataError` if a column is missing, or the text column does not hold strings."""
    from pyarrow import types

    require_columns((column, *keep), file.schema_arrow.names, path, None)
    column_type = file.schema_arrow.field(column).type
    value_type = column_type
    if types.is_dictionary(column_type):
        value_type = column_type.value_type
    if not types.is_string(value_type) and not types.is_large_string(value_type):
        raise DataError(
            f"the column `{column}` holds {column_type}, expected strings", path
        )
