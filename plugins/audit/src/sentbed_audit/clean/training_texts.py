"""Readers of training texts: from files, and from data sources of recipes."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, cast

from sentbed.errors import DataError
from sentbed.helpers import open_file
from sentbed.protocols import DataSource
from sentbed_common import (
    bounded_lines,
    csv_reader,
    json_object,
    unpacked_stream,
)

ROWS = 4096
"""Number of rows that are read from a data source at a time."""

_PACKED_TABLES = (".parquet", ".arrow", ".zip", ".xz", ".bz2")


def texts_of_source(source: DataSource) -> Iterator[str]:
    """Yield the texts in all columns of a data source.

    Raises:
        DataError: if the source cannot be read.
    """
    dataset = source.open()
    for start in range(0, len(dataset), ROWS):
        rows = range(start, min(start + ROWS, len(dataset)))
        for values in dataset.rows(rows).values():
            yield from (value for value in values if isinstance(value, str))


def texts_of_file(path: Path) -> Iterator[str]:
    """Yield the texts of a file: all strings of `.jsonl`, all fields of `.csv`, otherwise tab-separated fields.

    The encoding is UTF-8. The file may be compressed by gzip.

    Raises:
        DataError: if it cannot be read; the error names file and line.
    """
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(_PACKED_TABLES):
        raise DataError(
            "texts are read from plain text, `.tsv`, `.csv` and `.jsonl` files, also in `.gz`; name this file in "
            'a data component, such as `data = [{ use = "pairs", path = "..." }]` in `[clean]`',
            path,
        )

    lines = _lines(path)
    if name.endswith(".csv"):
        yield from _fields(lines, path)
        return

    for number, line in enumerate(lines, start=1):
        if name.endswith(".jsonl"):
            yield from _strings(json_object(line, path, number))
        else:
            yield from line.rstrip("\r\n").split("\t")


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, which may be compressed; raises `DataError` if it cannot be read."""
    try:
        with ExitStack() as stack:
            stream: IO[bytes] = stack.enter_context(open_file(path))
            if path.name.lower().endswith(".gz"):
                packed = cast("Any", stream)
                stream = stack.enter_context(unpacked_stream(packed, path))
            for number, line in enumerate(bounded_lines(stream, path), start=1):
                yield _decoded(line, path, number)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"the file is damaged or incomplete ({error}); get it again", path
        ) from error
    except OSError as error:
        raise DataError(
            f"cannot read the file: {error.strerror}; check the path", path
        ) from error


def _decoded(
    line: bytes,
    path: Path,
    number: int,
) -> str:
    """Return a line as text, without a byte order mark; raises `DataError` if it is not UTF-8."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"found the byte 0x{line[error.start]:02x}, expected UTF-8; convert the file to UTF-8",
            path,
            number,
        ) from error
    return text.removeprefix("\ufeff") if number == 1 else text


def _fields(lines: Iterator[str], path: Path) -> Iterator[str]:
    """Yield the fields of all rows of CSV; raises `DataError` for an invalid row."""
    rows = csv_reader(lines)
    try:
        for row in rows:
            yield from row
    except csv.Error as error:
        raise DataError(
            f"the line is not valid CSV ({error}); name the file `.tsv` or `.txt` if it is none",
            path,
            rows.line_num,
        ) from error


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
