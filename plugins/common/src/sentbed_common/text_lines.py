"""The texts, JSON objects and CSV rows in lines of text files."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any

from sentbed.errors import DataError

LONGEST_LINE = 1 << 20
"""Largest number of bytes of a line in a text file, and of characters of a text to encode."""


def in_utf_16(beginning: bytes) -> bool:
    """Whether a text file that begins with these bytes is in UTF-16, by its mark, or by two Latin letters."""
    first, second = beginning[:2], beginning[2:4]
    if first in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return True
    return first.count(0) == 1 and second.count(0) == 1


def decoded_line(
    line: bytes,
    file: object,
    number: int,
    encoding: str = "utf-8",
    advice: str = "convert the file to UTF-8",
) -> str:
    """Return a line, with its line end, as text. UTF-8's byte order mark is removed from the first line.

    `number` is the line's number in `file`; `advice` ends the message about an invalid byte.

    Raises `DataError` if the line is not in `encoding`, or has a NUL byte, as texts in UTF-16 have.
    """
    if number == 1 and encoding == "utf-8":
        if in_utf_16(line):
            message = "this file is in UTF-16, expected UTF-8; convert it to UTF-8"
            raise DataError(message, file, number)
        line = line.removeprefix(codecs.BOM_UTF8)
    position = line.find(b"\0")
    if position >= 0:
        # The file is in UTF-32, is binary, or has holes.
        raise DataError(
            f"byte {position + 1} of the line is NUL, which is in no text; convert the file to UTF-8, or get it "
            "again if it was not written to its end",
            file,
            number,
        )
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte 0x{line[error.start]:02x} (number {error.start + 1} of the line) is not {encoding}; {advice}",
            file,
            number,
        ) from error


def json_object(
    line: str,
    file: object,
    number: int,
    expected: str = "an object",
) -> dict[str, Any]:
    """Return the JSON object in a line.

    `number` is the line's number in `file`; `expected` describes the expected object in the message.

    Raises `DataError` if the line is not valid JSON or not an object.
    """
    try:
        row = json.loads(line)
    except ValueError as error:
        reason = getattr(error, "msg", str(error))
        blank = ""
        if not line.strip():
            blank = ", and no blank line"
        message = (
            f"the line is not valid JSON ({reason}); expected one object a line{blank}"
        )
        raise DataError(message, file, number) from error

    if not isinstance(row, dict):
        raise DataError(
            f"the line holds a JSON {type(row).__name__}; expected {expected}",
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

    A row may have several lines, and a field up to `LONGEST_LINE` characters. Raises `DataError` for a row with
    invalid quoting.
    """
    # Python's limit of 131,072 characters is for all readers of the process.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            # Python's message goes on with advice for programmers.
            reason = str(error).partition(" - ")[0]
            raise DataError(
                f"the row that starts here is not valid CSV ({reason}); "
                f"close every quote, and double a quote inside a quoted text",
                file,
                line,
            ) from error

        if row is None:
            return

        yield line, row
