"""Text files with any suffix, read line by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sentbed import DataError, locate

from sentbed_data.csv_tsv_jsonl import decoded_lines, without_line_end


def as_tuple(path: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return a tuple of the paths or names in a recipe field, which may be a single one."""
    if isinstance(path, str):
        return (path,)
    return path


def local_file(location: str) -> Path:
    """Return the file that `location` names. Raises `DataError` if it does not exist or is a directory."""
    path = locate(location)
    if not path.is_file():
        raise DataError(
            "this is a directory; expected a file; name the file in it", path
        )

    return path


def numbered_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield the number of each line, and the line without its line end.

    Raises:
        DataError: if the file cannot be read or a byte is not valid in `encoding`; with file and line.
    """
    for number, line in enumerate(decoded_lines(path, encoding), 1):
        yield number, without_line_end(line)
