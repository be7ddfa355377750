"""Lines of limited length from text files, and the JSON objects in them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import IO, Any, AnyStr

from sentbed.errors import DataError
from sentbed.helpers import LONGEST_LINE


def bounded_lines(stream: IO[AnyStr], file: object) -> Iterator[AnyStr]:
    """Yield the lines of a stream with their line ends.

    Raises `DataError` for a line of more than `LONGEST_LINE` characters or, in a binary stream, bytes.
    """
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            unit = "characters"
            if isinstance(line, bytes):
                unit = "bytes"
            message = f"the line has more than {LONGEST_LINE:,} {unit}, expected a sentence; cut the line"
            raise DataError(message, file, number)

        yield line


class RepeatedKeyError(ValueError):
    """Raised if a JSON object has a key twice; Python's `json` would silently keep the last value."""


def strict_json(text: str) -> Any:
    """Parse JSON. Raises `ValueError` if it is invalid, or if an object in it has a key twice."""
    return json.loads(text, object_pairs_hook=_without_repeated_keys)


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key, value in pairs:
        if key in row:
            raise RepeatedKeyError(f"the key `{key:.80}` occurs twice in an object")

        row[key] = value

    return row


def json_object(
    line: str,
    file: object,
    number: int,
    expected: str = "an object",
) -> dict[str, Any]:
    """Return the JSON object in a line.

    `number` is the line's number in `file`; `expected` describes the expected object in the message.

    Raises `DataError` if the line is not valid JSON or not an object, or if an object has a key twice.
    """
    try:
        row = strict_json(line)
    except RepeatedKeyError as error:
        raise DataError(f"{error}; remove one, or rename it", file, number) from error
    except (ValueError, RecursionError) as error:
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


def csv_reader(lines: Iterable[str], delimiter: str = ",") -> Any:
    """Return Python's strict reader of CSV, for fields of up to `LONGEST_LINE` characters."""
    # Python's limit of 131,072 characters is for all readers of the process.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    return csv.reader(lines, delimiter=delimiter, strict=True)
