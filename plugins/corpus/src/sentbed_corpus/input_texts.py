"""Texts of the inputs of a command: files, directories, patterns, data sets of the hub, standard input."""

from __future__ import annotations

import glob
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sentbed.errors import DataError, listed
from sentbed_common import (
    TABLES,
    decoded_line,
    local_file,
    require_string,
    suffix_of,
    table_rows,
    text_lines,
)

STANDARD_INPUT = "-"
LINES = ".txt"
"""Suffix of a file of which every line is a text, also an empty one."""


def find_inputs(inputs: Sequence[str]) -> list[str]:
    """Return the locations of the files that inputs name, for `input_texts`.

    A directory stands for the files of a known suffix below it that are not hidden, and a pattern such as
    `corpus/*.jsonl` for the files that match it, both sorted by name. Any other input is a location by itself.

    Raises:
        DataError: if a directory or a pattern has no files.
    """
    locations: list[str] = []
    for place in inputs:
        path = Path(place)
        if path.is_dir():
            # The wildcard matches no hidden file.
            files = _matching_files(f"{glob.escape(place)}/**")
            files = [file for file in files if suffix_of(file) in (*TABLES, LINES)]
        elif glob.has_magic(place) and not path.exists():
            files = _matching_files(place)
        elif path.exists():
            # Workers may have another working directory.
            files = [str(path.absolute())]
        else:
            files = [place]
        if not files:
            suffixes = listed([*TABLES, LINES])
            raise DataError(
                f"there is no such file, expected some that end in {suffixes}; check the path",
                place,
            )
        locations += files
    return locations


def _matching_files(pattern: str) -> list[str]:
    """Return the absolute paths of the files that match a pattern, sorted."""
    # `Path.glob` refuses absolute patterns.
    paths = map(Path, glob.glob(pattern, recursive=True))  # noqa: PTH207
    return sorted(str(path.absolute()) for path in paths if path.is_file())


def input_texts(location: str, column: str) -> Iterator[str]:
    """Yield the texts of an input: each line of a text file or of standard input, or the values of a column.

    Raises:
        DataError: if the input cannot be read, or a value is no text, with the number of its row.
    """
    if location == STANDARD_INPUT:
        for number, line in enumerate(sys.stdin.buffer, 1):
            text = decoded_line(line, "standard input", number)
            yield text.removesuffix("\n").removesuffix("\r")
    elif suffix_of(location) == LINES:
        for _, text in text_lines(local_file(location)):
            yield text
    else:
        for number, (value,) in table_rows(location, [column]):
            yield require_string(value, column, location, number)
