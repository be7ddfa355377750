"""Lines of text files, and the JSON objects and CSV rows in them."""

from __future__ import annotations

import codecs
import csv
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sentbed.errors import DataError

from sentbed_common.text_files import open_text


def decoded_line(
    line: bytes,
    file: object,
    number: int,
    encoding: str = "utf-8",
) -> str:
    """Return a line, with its line end, as text. UTF-8's byte order mark is removed from the first line.

    `number` is the line's number in `file`. Raises `DataError` if the line is not in `encoding`, or has a NUL,
    as texts in UTF-16 and UTF-32 have.
    """
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
        if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise DataError(
                f"the file is in UTF-16, expected {encoding}; convert it to UTF-8",
                file,
            )

    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte 0x{line[error.start]:02x} (number {error.start + 1} of the line) is not {encoding}; convert "
            "the file to UTF-8, or name its encoding",
            file,
            number,
        ) from error
    except (LookupError, UnicodeError) as error:
        raise DataError(
            f"`encoding = {encoding!r}` reads no text; name one that Python knows, such as `latin-1` or "
            "`gb18030`, or convert the file to UTF-8",
            file,
        ) from error

    if "\0" in text:
        raise DataError(
            "the line has a NUL, which is in no text; convert the file to UTF-8, or get it again if it was not "
            "written to its end",
            file,
            number,
        )

    return text


def decoded_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    r"""Yield the lines of a text file with their ends. Only "\n" ends a line.

    A file whose name ends in `.gz` is decompressed. Raises `DataError` as `decoded_line` does, or if the file
    cannot be read.
    """
    with open_text(path) as stream:
        for number, line in enumerate(stream, 1):
            yield decoded_line(line, path, number, encoding)


def text_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    r"""Yield the number of each line, and the line without its end, `\n` or `\r\n`. See `decoded_lines`."""
    for number, line in enumerate(decoded_lines(path, encoding), 1):
        yield number, line.removesuffix("\n").removesuffix("\r")


def json_object(
    line: str,
    file: object,
    number: int,
) -> dict[str, Any]:
    """Return the JSON object in a line, whose number in `file` is `number`.

    Raises `DataError` if the line is not valid JSON or not an object, or if an escape in it is no character (half
    of a surrogate pair, or NUL).
    """
    try:
        row = json.loads(line)
        content = b""
        if "\\u" in line:
            content = json.dumps(row, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"the line is not valid JSON ({error}); expected one object a line",
            file,
            number,
        ) from error

    if b"\\u0000" in content:
        raise DataError("the line has a NUL, which is in no text", file, number)
    if not isinstance(row, dict):
        raise DataError(
            f"the line holds a JSON {type(row).__name__}; expected an object",
            file,
            number,
        )

    return row


def csv_rows(
    lines: Iterable[str],
    file: object,
    delimiter: str = ",",
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line and the fields of each row of CSV, with RFC 4180 quoting.

    A row may have several lines. Raises `DataError` for a row with invalid quoting.
    """
    # Python's limit of 131,072 characters a field is for all readers of the process.
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    line = 1

    try:
        for row in reader:
            yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"the row that starts here is not valid CSV ({error}); close every quote, and double a quote inside "
            "a quoted text",
            file,
            line,
        ) from error
