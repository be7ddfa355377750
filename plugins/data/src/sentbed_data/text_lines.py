"""Lines of text files: their encodings, and strict decoding, so that every error has a line number."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from sentbed import DataError
from sentbed_common import decoded_line, open_text

_ENCODING_ADVICE = (
    "convert the file to UTF-8, or name its encoding in the recipe, for example "
    '`encoding = "latin-1"`'
)
"""End of the message about a byte that is not in the file's encoding."""


def python_encoding(encoding: str) -> str:
    """Return Python's name of the encoding `encoding`.

    Raises:
        DataError: if Python does not know the encoding, or lines in it do not end at the byte 0x0A.
    """
    try:
        name = codecs.lookup(encoding).name
        if name in ("utf-8", "utf-8-sig"):
            return "utf-8"

        one_byte_newline = "\n".encode(name) == b"\n"
    except (LookupError, UnicodeError) as error:
        raise DataError(
            f"`encoding = {encoding!r}` is not a text encoding that Python knows; "
            f'use `"utf-8"`, `"latin-1"`, `"gb18030"` or the like'
        ) from error

    if not one_byte_newline:
        raise DataError(
            f"`encoding = {encoding!r}` does not end a line at a single byte; convert the file to UTF-8"
        )

    return name


def decoded_lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the decoded lines of a text file with their line ends; for an invalid byte, raise `DataError`.

    A byte order mark in UTF-8 is skipped, and a file whose name ends in `.gz` is decompressed.
    """
    name = python_encoding(encoding)
    with open_text(path) as stream:
        for number, line in enumerate(stream, 1):
            yield decoded_line(line, path, number, name, _ENCODING_ADVICE)


def without_line_end(line: str) -> str:
    """Return the line without its line end."""
    return line.removesuffix("\n").removesuffix("\r")


def numbered_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield the number of each line, and the line without its line end.

    Raises:
        DataError: if the file cannot be read or a byte is not valid in `encoding`; with file and line.
    """
    for number, line in enumerate(decoded_lines(path, encoding), 1):
        yield number, without_line_end(line)
