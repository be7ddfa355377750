"""Strict reading of files with one JSON object a line, without holding the whole file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sentbed import DataError
from sentbed.errors import suggest

from sentbed_evaluators.pairs import is_encodable


def read_objects(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield line and object; blank lines are skipped. Raises `DataError` that names file and line."""
    for line, text in _lines(path, encoding):
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the line is not JSON ({error}); write one object a line", path, line) from error
        if not isinstance(row, dict):
            raise DataError(
                f"the line is a JSON {type(row).__name__}, but an object was expected; "
                f"write one object a line",
                path,
                line,
            )
        yield line, row


def text_of(row: Mapping[str, Any], key: str, path: Path, line: int) -> str:
    """Return the text under a key; raises `DataError` where there is none."""
    if key not in row:
        raise DataError(f"key `{key}` is missing; add it.{suggest(key, list(row))}", path, line)
    found = row[key]
    if not isinstance(found, str) or not is_encodable(found):
        raise DataError(f"`{key}` is {found!r}, but a text was expected; repair the line", path, line)
    return found


def _lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    try:
        with path.open("rb") as stream:
            for line, content in enumerate(stream, start=1):
                try:
                    text = content.decode(encoding).removeprefix("\ufeff")
                except UnicodeDecodeError as error:
                    raise DataError(
                        f"found byte 0x{content[error.start]:02x}, which is not {encoding}; "
                        f"convert the file to UTF-8 or name its encoding",
                        path,
                        line,
                    ) from error
                if text.strip():
                    yield line, text
    except OSError as error:
        raise DataError(f"the file cannot be read ({error.strerror}); check path and rights", path) from error
