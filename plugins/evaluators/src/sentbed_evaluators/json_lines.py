"""Strict reader of JSON Lines files that does not load the whole file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from sentbed import DataError
from sentbed.errors import suggest
from sentbed_common import json_object

from sentbed_evaluators.text_lines import Hashes, lines


def read_objects(
    path: Path,
    encoding: str = "utf-8",
    hashes: Hashes | None = None,
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the line number and the JSON object of each line that is not blank.

    For `hashes` see `text_lines.lines`. Raises `DataError`, with file and line, if a line is no JSON object.
    """
    for line, text in lines(path, encoding, hashes):
        if not text.strip():
            continue
        yield line, json_object(text, path, line)


def value_of(
    row: Mapping[str, Any],
    key: str,
    path: Path,
    line: int,
) -> Any:
    """Return the value of `key` in an object; raises `DataError` if the object has no such key."""
    if key not in row:
        raise DataError(
            f"key `{key}` is missing; add it.{suggest(key, list(row))}", path, line
        )
    return row[key]


def text_of(
    row: Mapping[str, Any],
    key: str,
    path: Path,
    line: int,
) -> str:
    """Return the text that is the value of `key` in an object; raises `DataError` if it is no text."""
    value = value_of(row, key, path, line)
    if not is_text(value):
        raise DataError(
            f"`{key}` is {value!r}, but a text was expected; repair the line",
            path,
            line,
        )
    return value


def is_text(value: object) -> TypeGuard[str]:
    """Whether the value is a text without NUL characters and lone surrogates, which JSON's escapes can write."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
