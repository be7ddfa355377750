"""Lines of text files, of bounded length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, AnyStr

from sentbed.errors import DataError
from sentbed.helpers import LONGEST_LINE


def bounded_lines(stream: IO[AnyStr], file: object) -> Iterator[AnyStr]:
    """Yield the lines of a stream, with their ends. Raises `DataError` for an overlong line."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            unit = "bytes" if isinstance(line, bytes) else "characters"
            message = f"the line has more than {LONGEST_LINE:,} {unit}, expected a sentence; cut the line"
            raise DataError(message, file, number)
        yield line
