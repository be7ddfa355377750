"""Text files of any suffix, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sentbed import DataError, locate

from sentbed_data.csv_tsv_jsonl import chomp, decoded_lines


def several(path: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return one path or name, or several, as a tuple."""
    if isinstance(path, str):
        return (path,)
    return path


def local_file(location: str) -> Path:
    """Return the file that `location` names. Raises `DataError` if it is missing or a directory."""
    path = locate(location)
    if not path.is_file():
        raise DataError(
            "this is a directory; expected a file; name the file in it", path
        )
    return path


def numbered_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of every line, without its end.

    Raises:
        DataError: if a byte is not valid in `encoding`; with file and line.
    """
    for number, line in enumerate(decoded_lines(path, encoding), 1):
        yield number, chomp(line)
