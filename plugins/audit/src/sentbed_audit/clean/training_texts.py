"""Readers of training texts: from files, and from data sources of recipes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sentbed.errors import DataError
from sentbed.protocols import DataSource
from sentbed_common import (
    csv_rows,
    decoded_line,
    json_object,
    open_text,
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
        for _, fields in csv_rows(lines, path):
            yield from fields
        return

    for number, line in enumerate(lines, start=1):
        if name.endswith(".jsonl"):
            yield from _strings(json_object(line, path, number))
        else:
            yield from line.rstrip("\r\n").split("\t")


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, which may be compressed; raises `DataError` if it cannot be read."""
    with open_text(path) as stream:
        for number, line in enumerate(stream, start=1):
            yield decoded_line(line, path, number)


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
